"""The Python client of the protocol's authors, which signs a person in.

Usage: client.py URL. It prints the addresses that the person shall open with the button to press, `end` for the end of the access on the
page of the person, and what it has done. It ends with 1 if an answer is wrong.
"""

import asyncio
import logging
import sys
from urllib.parse import parse_qs, urlsplit

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


class Store:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Person:
    """Opens addresses, and brings what the browser brings to the port of the client."""

    button = "Allow"
    opened = 0

    async def listen(self):
        self.answers = asyncio.Queue()
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/callback"

    async def answer(self, reader, writer):
        path = (await reader.readline()).decode().split(" ")[1]
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
        await writer.drain()
        writer.close()
        if path.startswith("/callback"):
            await self.answers.put(parse_qs(urlsplit(path).query))

    async def open(self, address):
        self.opened += 1
        print(f"open {self.button} {address}", flush=True)

    async def come_back(self):
        answer = await self.answers.get()
        return AuthorizationCodeResult(
            code=answer.get("code", [""])[0], state=answer["state"][0], iss=answer["iss"][0]
        )


def causes(error):
    """Returns an error and those within it."""
    inner = getattr(error, "exceptions", ())
    return [error, *(cause for one in inner for cause in causes(one))]


async def use_tools(url, auth):
    async with create_mcp_http_client(auth=auth) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                names = {tool.name for tool in (await session.list_tools()).tools}
                result = await session.call_tool("list_apps", {})
                assert not result.is_error, result
                return names


async def main(url):
    person, store = Person(), Store()
    redirect = await person.listen()
    metadata = OAuthClientMetadata(client_name="Python check", redirect_uris=[redirect])
    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=metadata,
        storage=store,
        redirect_handler=person.open,
        callback_handler=person.come_back,
    )
    names = await use_tools(url, auth)
    assert "explain_group" in names and "resolve_group" not in names, names
    assert store.client.client_id.startswith("registered."), store.client
    assert store.tokens.scope == "reports:read", store.tokens.scope
    before = store.tokens
    auth.context.token_expiry_time = 1
    await use_tools(url, auth)
    assert store.tokens.refresh_token != before.refresh_token, "it has not refreshed"
    assert person.opened == 1, "a refresh asks no person"
    print("end", flush=True)
    # The person ends the access while the client waits.
    for _ in range(100):
        async with create_mcp_http_client() as http:
            headers = {"Authorization": f"Bearer {store.tokens.access_token}"}
            if (await http.post(url, headers=headers, json={})).status_code == 401:
                break
        await asyncio.sleep(0.2)
    person.button = "Deny"
    # The client logs the refusal that is checked here.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    try:
        await use_tools(url, auth)
        raise AssertionError("the access goes on")
    except BaseException as error:
        if not any(isinstance(cause, OAuthFlowError) for cause in causes(error)):
            raise
    assert person.opened == 2, person.opened
    print("Python: registration, consent, tools, refresh, end, denial", flush=True)


asyncio.run(main(*sys.argv[1:]))
