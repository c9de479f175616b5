"""The desk behind the official SDK's server, over stdio or streamable HTTP.

Law: over stdio, stdout carries the protocol alone; over HTTP, only this machine is listened to
unless told, and requests whose `Host` is another are refused. Needs the extra `mcp`.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from nki_agent import __version__
from nki_agent.mcp.desk import Desk

PATH = "/mcp"
LOCAL = ("127.0.0.1", "localhost", "::1")
REQUEST_BYTES_MAX = 4 * 2**20
"""A kernel file has two million bytes at most; JSON may double them."""
INSTRUCTIONS = (
    "Tools to write kernels for AWS Trainium and Inferentia in NKI (`import nki`). Work like this:"
    " `describe_task`, write the kernel file, `verify_kernel`, repair the first problem that it"
    " names, repeat until the stage is right; then `profile_kernel` to make it faster. `look_up`"
    " explains an instruction, an operator, a limit or a code. Kernels are traced and simulated: no"
    " chip is needed, latencies are modelled."
)


def make_server(desk: Desk) -> Server[Any]:
    """A server of the SDK that asks the desk."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name, description=spec.description, input_schema=spec.parameters
                )
                for spec in desk.specs
            ]
        )

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        del context
        said = await desk.call(params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=said.text)], is_error=said.is_error
        )

    return Server(
        "nki-agent",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(desk: Desk) -> None:
    """Serve one client until it closes our stdin."""
    server = make_server(desk)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def serve_http(desk: Desk, *, host: str, port: int) -> None:
    """Serve clients at http://HOST:PORT/mcp until interrupted."""
    names = (*LOCAL[:2], "[::1]") if host in LOCAL else (host,)
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}:{port}" for name in names],
        allowed_origins=[f"http://{name}:{port}" for name in names],
    )
    app = make_server(desk).streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=REQUEST_BYTES_MAX,
        transport_security=security,
        host=host,
    )
    uvicorn.run(app, host=host, port=port, log_level="warning")
