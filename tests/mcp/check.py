"""Checks the tools with the client of the protocol's authors: over HTTP, and with a program that it starts.

Usage: check.py URL KEY [PROGRAM]. It prints each tool that it calls, and ends with 1 if an answer is wrong.
"""

import asyncio
import re
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


async def call(session, name, arguments):
    result = await session.call_tool(name, arguments)
    text = result.content[0].text
    assert not result.is_error, f"{name}: {text}"
    print(f"  {name}: {len(text)} characters")
    return text


async def check(session):
    """Answers which new crash of a version is the worst, and what its evidence says, through tools alone."""
    await session.initialize()
    names = {tool.name for tool in (await session.list_tools()).tools}
    assert {"list_apps", "explain_group", "read_report"} <= names, names
    assert "resolve_group" not in names, "a reader must not see the tools that change groups"
    apps = await call(session, "list_apps", {})
    app = re.search(r'"app":"([^"]+)"', apps)
    if app is None:
        print("  there are no reports: start `unslide demo` to check more")
        return
    await call(session, "list_versions", {"app": app[1]})
    groups = await call(session, "list_groups", {"app": app[1], "kind": "crash", "sort": "reports"})
    group = re.search(rf'"id":"({UUID})"', groups)
    assert group, groups
    document = await call(session, "explain_group", {"id": group[1]})
    report = re.search(rf"\[report ({UUID}), crash\.error\]", document)
    assert report, document
    text = await call(session, "read_report", {"id": report[1]})
    assert f"[report {report[1]}" in text, text
    missing = await session.call_tool("read_report", {"id": "00000000-0000-0000-0000-000000000000"})
    assert missing.is_error and "(404)" in missing.content[0].text, missing


async def main(url, key, program):
    print("over HTTP:")
    headers = {"Authorization": f"Bearer {key}"}
    async with create_mcp_http_client(headers=headers) as http:
        async with streamable_http_client(f"{url}/mcp", http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await check(session)
    if program:
        print("on standard input and output:")
        environment = {"UNSLIDE_URL": url, "UNSLIDE_API_KEY": key}
        server = StdioServerParameters(command=program, args=["mcp"], env=environment)
        async with stdio_client(server) as (read, write):
            async with ClientSession(read, write) as session:
                await check(session)
    print("the tools answer the client of the protocol's authors")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
