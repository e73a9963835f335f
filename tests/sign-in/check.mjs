// Signs people in at oidc-provider, a certified provider, with a browser, and tries what must fail.
// Usage: node check.mjs BASE_URL API_KEY TENANT PORT     the provider listens on the port
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";
import { chromium } from "playwright-core";

const [base, key, tenant, port] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const start = `${base}/console/sso/${tenant}`;
const SECRET = "a-secret-of-this-check-which-is-long-enough-for-hs256";
const ALGORITHMS = ["RS256", "RS512", "PS256", "PS384", "ES256", "ES384", "EdDSA"];
// Milliseconds that a page may take to appear.
const PAGE_TIMEOUT = 60_000;
const accounts = {
  robin: { name: "Robin Ito", groups: ["crash-team"] },
  kim: { name: "Kim Bo", groups: ["visitors"] },
};
const wrong = [];
const check = (holds, what) => { if (!holds) { wrong.push(what); console.error(`WRONG ${what}`); } };

const keys = [];
for (const alg of ALGORITHMS) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  keys.push({ ...(await exportJWK(privateKey)), alg, use: "sig", kid: alg });
}
const client = (alg, more = {}) => ({
  client_id: `unslide-${alg}`, client_secret: SECRET, id_token_signed_response_alg: alg,
  redirect_uris: [`${start}/callback`], response_types: ["code"], grant_types: ["authorization_code"], ...more,
});
const provider = new Provider(issuer, {
  clients: [
    ...[...ALGORITHMS, "HS256"].map((alg) => client(alg)),
    client("RS256", { client_id: "unslide-public", client_secret: undefined, token_endpoint_auth_method: "none" }),
  ],
  jwks: { keys },
  enabledJWA: { idTokenSigningAlgValues: [...ALGORITHMS, "HS256"] },
  claims: { openid: ["sub"], profile: ["name"], groups: ["groups"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  cookies: { keys: ["a-key-of-this-check"] },
  findAccount: (_, id) => accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
});
const server = provider.listen(Number(port), "127.0.0.1");

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) };
  const answer = await fetch(`${base}${path}`, { method, headers, body: body && JSON.stringify(body) });
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  return json;
}

const setClient = (name, secret) => call("PUT", "/v1/sign-in", {
  issuer, client_id: name, client_secret: secret, session_hours: 1, rules: [{ group: "crash-team", preset: "triager" }],
});

const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});

// Opens the console as a person who has no session anywhere. Returns the page at its end, and the address of the callback.
async function signIn(account) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PAGE_TIMEOUT);
  const seen = { page, context, callback: "", status: 0 };
  page.on("response", (response) => {
    if (response.url().startsWith(`${start}/callback`)) Object.assign(seen, { callback: response.url(), status: response.status() });
  });
  await page.goto(start);
  // The page asks whether a link shall sign in here.
  await page.click("button.primary");
  await page.fill("input[name=login]", account);
  await page.fill("input[name=password]", "any");
  await page.click("button[type=submit]");
  await page.waitForURL(/\/interaction\/|\/console/);
  if (page.url().startsWith(issuer)) await page.click("button[type=submit]");
  await page.waitForURL(`${base}/console**`);
  return seen;
}

try {
  for (const [name, secret] of [...ALGORITHMS.map((alg) => [`unslide-${alg}`, SECRET]), ["unslide-public", ""]]) {
    const state = await setClient(name, secret);
    check(state.problem === undefined, `${name}: ${state.problem}`);
    const robin = await signIn("robin");
    await robin.page.waitForURL((url) => !url.pathname.startsWith("/console/sso"));
    const text = await robin.page.textContent("body");
    check(robin.status === 200 && text.includes("Robin Ito"), `${name} does not sign a person in: ${robin.page.url()}`);
    const cookies = await robin.context.cookies(`${base}/console`);
    check(cookies.every((cookie) => cookie.httpOnly), `${name}: a cookie that scripts can read`);
    check(cookies.some((cookie) => cookie.name.endsWith("unslide_console") && cookie.sameSite === "Strict"), `${name}: no session: ${cookies.map((cookie) => `${cookie.name} ${cookie.sameSite}`)}`);
    await robin.context.close();
  }
  await setClient("unslide-HS256", SECRET);
  const shared = await signIn("robin");
  check(shared.status === 403, `a token with a shared secret: ${shared.status}`);

  await setClient("unslide-ES256", SECRET);
  const kim = await signIn("kim");
  check(kim.status === 403, `a person without a group of a rule: ${kim.status}`);
  const robin = await signIn("robin");
  await robin.page.waitForURL((url) => !url.pathname.startsWith("/console/sso"));
  const again = await robin.page.goto(robin.callback);
  check(again.url() === `${base}/console`, `the same answer a second time: ${again.status()} ${again.url()}`);
  const other = await (await browser.newContext()).newPage();
  const stolen = await other.goto(robin.callback);
  check(stolen.status() === 400, `an answer in another browser: ${stolen.status()}`);
  check((await robin.page.goto(`${base}/console/groups`)).url().endsWith("/console/groups"), "the session does not last");
  const log = await call("GET", "/v1/audit-log");
  check(log.items.some((entry) => entry.action === "console.sign_in" && entry.name === "Robin Ito"), "the audit log names no person");
  await call("DELETE", "/v1/sign-in");
  check((await robin.page.goto(`${base}/console/groups`)).url().includes("/console/sign-in"), "a session outlives its provider");
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
}
if (wrong.length > 0) process.exit(1);
console.log(`check-sign-in: ${ALGORITHMS.join(", ")} and a public client sign in; what must fail fails`);
