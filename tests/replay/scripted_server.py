"""A Temporal server that sends scripted workflow tasks to a worker of the real SDK."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import Message
from temporalio.api.workflowservice import v1

_SERVICE = "temporal.api.workflowservice.v1.WorkflowService"

Handler = Callable[[Any], Message]


class ScriptedServer:
    """Sends each task once the previous one has been answered; other calls fail as unimplemented."""

    def __init__(self, *tasks: v1.PollWorkflowTaskQueueResponse, sticky: bool = False) -> None:
        """The first task is for the worker's own queue; with `sticky`, all others are for its sticky queue."""
        self.tasks = list(tasks)
        self.sticky = sticky
        self.answers: list[Any] = []
        self.handlers: dict[str, Handler] = {
            "GetSystemInfo": lambda _: v1.GetSystemInfoResponse(server_version="1.32.0"),
            "DescribeNamespace": _describe_namespace,
            "RespondQueryTaskCompleted": self._query_answered,
            "RespondWorkflowTaskCompleted": self._completed,
            "RespondWorkflowTaskFailed": self._failed,
        }
        self._handed_out = 0
        self._is_over = False

    async def until_answered(self) -> None:
        """Wait until each task has been answered."""
        async with asyncio.timeout(30):
            while len(self.answers) < len(self.tasks):  # noqa: ASYNC110  # a task may be added meanwhile
                await asyncio.sleep(0.01)

    async def _poll(self, request: Any) -> Message:
        is_sticky = request.task_queue.normal_name != ""
        while not self._is_over:
            if len(self.answers) == self._handed_out < len(self.tasks) and is_sticky == (
                self.sticky and self._handed_out > 0
            ):
                self._handed_out += 1
                return self.tasks[self._handed_out - 1]
            await asyncio.sleep(0.01)
        return v1.PollWorkflowTaskQueueResponse()

    def _query_answered(self, request: Any) -> Message:
        # The SDK may answer a query that has failed once more, also when the next task is out; a server ignores that.
        asked = self.tasks[self._handed_out - 1]
        if len(self.answers) < self._handed_out and asked.HasField("query") and asked.task_token == request.task_token:
            self.answers.append(request)
        return v1.RespondQueryTaskCompletedResponse()

    def _completed(self, request: Any) -> Message:
        self.answers.append(request)
        return v1.RespondWorkflowTaskCompletedResponse()

    def _failed(self, request: Any) -> Message:
        self.answers.append(request)
        return v1.RespondWorkflowTaskFailedResponse()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve for the block; yields the address. The worker must end within it."""

        async def call(method: str, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
            if method == "PollWorkflowTaskQueue":
                return await self._poll(request)
            if method not in self.handlers:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, method)
            return self.handlers[method](request)

        class Calls(grpc.GenericRpcHandler):
            def service(self, details: grpc.HandlerCallDetails) -> Any:
                method = details.method.rpartition("/")[2]

                async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
                    return await call(method, request, context)

                return grpc.unary_unary_rpc_method_handler(
                    handle,
                    request_deserializer=getattr(v1, f"{method}Request").FromString,
                    response_serializer=lambda message: message.SerializeToString(),
                )

        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Calls(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)

    def over(self) -> None:
        """Answer all polls, so that the worker can end."""
        self._is_over = True


def _describe_namespace(request: Any) -> Message:
    described = v1.DescribeNamespaceResponse()
    described.namespace_info.name = request.namespace
    return described
