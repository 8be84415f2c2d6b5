# The syncpod command and its worker, installed from the hashes in requirements.txt.

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN python -m venv /opt/syncpod
ENV PATH=/opt/syncpod/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.txt .
RUN pip install --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE worker.py ./
COPY syncpod syncpod
COPY workflows workflows
COPY activities activities
COPY protos protos
RUN pip install --no-deps .

FROM python:${PYTHON}-slim
COPY --from=build /opt/syncpod /opt/syncpod
ENV PATH=/opt/syncpod/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["syncpod"]
CMD ["worker"]
