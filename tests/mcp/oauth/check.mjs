// Lets the clients of the protocol's authors sign a person in: in TypeScript (both packages) and in Python. Chromium is the person's
// browser, and oidc-provider their tenant's identity provider.
// Usage: node check.mjs BASE_URL API_KEY TENANT PORT PYTHON     the provider listens on the port
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport, UnauthorizedError as NewUnauthorized } from "@modelcontextprotocol/client";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { UnauthorizedError as OldUnauthorized } from "@modelcontextprotocol/sdk/client/auth.js";
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";
import { chromium } from "playwright-core";

const [base, key, tenant, port, python] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
// Milliseconds that a page may take to appear.
const PAGE_TIMEOUT = 60_000;
const SECRET = "a-secret-of-this-check-which-is-long-enough-for-hs256";
const check = (holds, what) => { if (!holds) throw new Error(what); };

const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const provider = new Provider(issuer, {
  clients: [{ client_id: "unslide", client_secret: SECRET, redirect_uris: [`${base}/console/sso/${tenant}/callback`],
    response_types: ["code"], grant_types: ["authorization_code"] }],
  jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: "RS256", use: "sig", kid: "a" }] },
  claims: { openid: ["sub"], profile: ["name"], groups: ["groups"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  cookies: { keys: ["a-key-of-this-check"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: "Robin Ito", groups: ["crash-team"] }) }),
});
const identityServer = provider.listen(Number(port), "127.0.0.1");

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) };
  const answer = await fetch(`${base}${path}`, { method, headers, body: body && JSON.stringify(body) });
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  return json;
}

// The server of an assistant on the person's computer, to which the browser brings the code.
const waiting = [];
const callbacks = createServer((request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  response.end("done");
  if (url.pathname === "/callback") waiting.shift()?.(url.searchParams);
});
await new Promise((listens) => callbacks.listen(0, "127.0.0.1", listens));
const redirectUrl = `http://127.0.0.1:${callbacks.address().port}/callback`;
const nextCallback = () => new Promise((comes) => waiting.push(comes));

const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const context = await browser.newContext();
const page = await context.newPage();
page.setDefaultTimeout(PAGE_TIMEOUT);

// Opens the address of an assistant as a person, who signs in if they have no session, and presses a button.
async function decide(address, button, changes) {
  await page.goto(String(address));
  if (page.url().includes("/console/sign-in")) {
    await page.getByRole("link", { name: "Sign in with your organization" }).click();
    await page.fill("input[name=tenant]", tenant);
    await page.getByRole("button").first().click();
    await page.fill("input[name=login]", "robin");
    await page.fill("input[name=password]", "any");
    await page.click("button[type=submit]");
    await page.waitForURL(/\/interaction\/|\/console/);
    if (page.url().startsWith(issuer)) await page.click("button[type=submit]");
  }
  await page.getByRole("heading", { name: "Give an assistant access?" }).waitFor();
  const text = await page.textContent("main");
  check(text.includes("Robin Ito") && text.includes("127.0.0.1") && text.includes(tenant), `the consent says: ${text}`);
  if (changes) await page.check("input[name=change]");
  await page.getByRole("button", { name: button }).click();
}

async function endAccess() {
  await page.goto(`${base}/console/assistants`);
  await page.getByRole("button", { name: "End access" }).first().click();
  await page.waitForURL(`${base}/console/assistants`);
}

// What a client of either package keeps.
function makeStore() {
  const store = { opened: undefined };
  const provider = {
    redirectUrl,
    clientMetadata: { client_name: "TypeScript check", redirect_uris: [redirectUrl], grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"], token_endpoint_auth_method: "none" },
    state: () => "a state of this check",
    clientInformation: () => store.client,
    saveClientInformation: (client) => { store.client = client; },
    tokens: () => store.tokens,
    saveTokens: (tokens) => { store.tokens = tokens; },
    redirectToAuthorization: (address) => { store.opened = address; },
    saveCodeVerifier: (verifier) => { store.verifier = verifier; },
    codeVerifier: () => store.verifier,
    invalidateCredentials: (what) => { if (what !== "verifier") store.tokens = undefined; },
    saveDiscoveryState: (state) => { store.discovery = state; },
    discoveryState: () => store.discovery,
  };
  return { store, provider };
}

async function callTools(Client, Transport, authProvider, path) {
  const client = new Client({ name: "check", version: "1" });
  const transport = new Transport(new URL(`${base}${path}`), { authProvider });
  try {
    await client.connect(transport);
    const tools = (await client.listTools()).tools.map((tool) => tool.name);
    const apps = await client.callTool({ name: "list_apps", arguments: {} });
    check(!apps.isError && /entries|entry/.test(apps.content[0].text), `list_apps: ${JSON.stringify(apps)}`);
    return { tools, transport: undefined };
  } catch (error) {
    return { error, transport };
  }
}

async function checkTypeScript(name, Client, Transport, Unauthorized, path, end) {
  const { store, provider: authProvider } = makeStore();
  const use = () => callTools(Client, Transport, authProvider, path);
  const first = await use();
  check(first.error instanceof Unauthorized, `${name} without a token: ${first.error}`);
  check(store.client.client_id.startsWith("registered."), `${name} did not register: ${JSON.stringify(store.client)}`);
  const comes = nextCallback();
  await decide(store.opened, "Allow", true);
  const answer = await comes;
  check(answer.get("iss") === base && answer.get("state") === "a state of this check", `${name}: ${answer}`);
  await first.transport.finishAuth(Transport === NewTransport ? answer : answer.get("code"));
  const second = await use();
  check(second.tools?.includes("resolve_group"), `${name} with a token: ${second.error}`);
  check(store.tokens.scope === "reports:read groups:write", `${name}: ${store.tokens.scope}`);
  const before = store.tokens;
  store.tokens = { ...before, access_token: before.access_token.replace(/.{8}$/, "00000000") };
  const third = await use();
  check(third.tools?.includes("list_groups"), `${name} after a refresh: ${third.error}`);
  check(store.tokens.refresh_token !== before.refresh_token, `${name} has not refreshed`);
  await end(store.tokens);
  store.opened = undefined;
  const last = await use();
  check(last.error instanceof Unauthorized && store.opened, `${name} after the end: ${last.error}`);
  console.log(`  ${name}: registration, consent, tools, refresh, end`);
}

async function revoke({ refresh_token: token }) {
  const about = await (await fetch(`${base}/.well-known/oauth-authorization-server`)).json();
  const answer = await fetch(about.revocation_endpoint, { method: "POST", body: new URLSearchParams({ token }) });
  check(answer.status === 200, `revocation: ${answer.status}`);
}

// The program prints the addresses that a person shall open, each with the button that they press.
async function checkPython(path) {
  const program = spawn(python, ["client.py", `${base}${path}`], { stdio: ["ignore", "pipe", "inherit"] });
  const ends = new Promise((done) => program.on("exit", done));
  for await (const line of createInterface({ input: program.stdout })) {
    const [, button, address] = line.match(/^open (\w+) (.*)$/) ?? [];
    if (button) await decide(address, button, false);
    else if (line === "end") await endAccess();
    else console.log(`  ${line}`);
  }
  check(await ends === 0, "the Python client fails");
}

try {
  for (const path of ["/mcp", `/mcp/${tenant}`]) {
    const document = await fetch(`${base}/.well-known/oauth-protected-resource${path}`);
    check(document.status === 404, `${path} is offered without a provider: ${document.status}`);
  }
  await call("PUT", "/v1/sign-in", { issuer, client_id: "unslide", client_secret: SECRET, session_hours: 1,
    rules: [{ group: "crash-team", preset: "triager" }] });
  await checkTypeScript("@modelcontextprotocol/sdk", OldClient, OldTransport, OldUnauthorized, `/mcp/${tenant}`, revoke);
  await checkTypeScript("@modelcontextprotocol/client", NewClient, NewTransport, NewUnauthorized, "/mcp", endAccess);
  await checkPython(`/mcp/${tenant}`);

  // The end of the tenant's sign-in ends what its people gave.
  const { store, provider: authProvider } = makeStore();
  const begun = await callTools(NewClient, NewTransport, authProvider, `/mcp/${tenant}`);
  const comes = nextCallback();
  await decide(store.opened, "Allow", false);
  await begun.transport.finishAuth(await comes);
  const request = () => fetch(`${base}/mcp/${tenant}`, { method: "POST", body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    headers: { authorization: `Bearer ${store.tokens.access_token}`, "content-type": "application/json", accept: "application/json, text/event-stream" } });
  check((await request()).status === 200, "the token does not count");
  const log = await call("GET", "/v1/audit-log");
  check(log.items.some((entry) => entry.action === "mcp.grant" && entry.name === "Robin Ito"), "the audit log names no person");
  await call("DELETE", "/v1/sign-in");
  check((await request()).status === 401, "a token outlives the sign-in of its tenant");
} catch (error) {
  console.error(`WRONG ${error.stack}`);
  process.exitCode = 1;
} finally {
  await browser.close();
  callbacks.close();
  callbacks.closeAllConnections();
  identityServer.close();
  identityServer.closeAllConnections();
}
if (!process.exitCode) console.log("check-mcp-oauth: the clients of the protocol's authors sign a person in");
