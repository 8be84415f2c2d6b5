# The syncpod command and its worker, installed from the hashes in requirements.txt.
#
# The base image is named by digest: deploy/pin_images.sh renews it.

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS base

FROM base AS build
# Without pip: nothing can be installed into what was built.
RUN python -m venv --without-pip /opt/syncpod
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PYTHON=/opt/syncpod/bin/python
WORKDIR /src
COPY requirements.txt .
RUN pip install --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE worker.py fleet_worker.py ./
COPY syncpod syncpod
COPY workflows workflows
COPY activities activities
COPY protos protos
RUN pip install --no-deps .

FROM base
RUN pip uninstall --yes --root-user-action=ignore pip
COPY --from=build /opt/syncpod /opt/syncpod
ENV PATH=/opt/syncpod/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Nobody in particular. A node agent needs root, and is given it by whoever starts it (docker-compose.yml); the commands
# that only speak to a Temporal server do not.
USER 65532:65532
ENTRYPOINT ["syncpod"]
CMD ["worker"]
