// Answers four questions of a team in a browser, each in at most six interactions.
// Usage: node flows.mjs BASE_URL API_KEY APP VERSION USER
import { chromium } from "playwright-core";

const [base, key, app, version, user] = process.argv.slice(2);
const MOST_INTERACTIONS = 6;
// Milliseconds that one step may take while other tests use the machine.
const LONGEST = 180_000;
const wrong = [];
const fail = (what) => { wrong.push(what); console.error(`WRONG ${what}`); };

// A person at the page: each click, key, text and choice is one interaction.
class Person {
  count = 0;
  constructor(page) { this.page = page; }

  async click(locator) { this.count += 1; await locator.click(); }
  async press(keys) { this.count += 1; await this.page.keyboard.press(keys); }
  async type(text) { this.count += 1; await this.page.keyboard.type(text); }

  // What leads to another page: all of that page is waited for.
  async follow(locator) { await Promise.all([this.page.waitForEvent("load"), this.click(locator)]); }
  async enter() { await Promise.all([this.page.waitForEvent("load"), this.press("Enter")]); }

  async choose(locator, value) {
    this.count += 1;
    await Promise.all([this.page.waitForEvent("load"), locator.selectOption(value)]);
  }
}

const copied = (page) => page.evaluate(() => navigator.clipboard.readText());
const said = (page) => page.locator("#said", { hasText: "Copied" }).waitFor();
const isGroup = (page) => /^\/console\/groups\/[0-9a-f-]{36}$/.test(new URL(page.url()).pathname);

const flows = {
  async "worst new crash of a version"(page, person) {
    await person.choose(page.locator("select[name=version]"), version);
    const figure = page.locator(".figures div").filter({ has: page.locator("dt", { hasText: /^New groups$/ }) });
    const shown = Number(await figure.locator("a").getAttribute("data-figure"));
    await person.follow(figure.locator("a"));
    const rows = page.locator("tr[data-row]");
    if (shown === 0 || (await rows.count()) !== shown) fail(`${shown} new groups lead to ${await rows.count()} rows`);
    await person.follow(page.getByRole("columnheader", { name: "Reports" }).getByRole("link"));
    await person.follow(rows.first().locator("a.open"));
    if (!isGroup(page)) fail(`the worst new crash is at ${page.url()}`);
    await page.getByText(`first seen in ${version}`).waitFor();
  },

  async "this customer's crash"(page, person) {
    await person.press("/");
    await person.type(user);
    await person.enter();
    await page.getByText("found by the id of the user").first().waitFor();
    await person.follow(page.locator("section", { has: page.getByRole("heading", { name: "Reports" }) }).locator("a.open").first());
    if (!new URL(page.url()).pathname.startsWith("/console/reports/")) fail(`the customer's crash is at ${page.url()}`);
    await page.locator(".call-frame").first().waitFor();
  },

  async "which dSYM is missing and where is it"(page, person) {
    await person.follow(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Symbols", exact: true }));
    const row = page.locator("section", { has: page.getByRole("heading", { name: "Missing" }) }).locator("tr[data-row]").first();
    if (!/[0-9a-f]{8}-[0-9a-f]{4}/i.test(await row.textContent())) fail("the missing dSYM has no debug id");
    await person.click(row.getByRole("button", { name: "Copy" }));
    await said(page);
    const command = await copied(page);
    if (!/^unslide upload "\$\(mdfind 'com_apple_xcode_dsym_uuids == [0-9A-F-]{36}'\)"$/.test(command)) fail(`the command for the missing dSYM is ${command}`);
  },

  async "tell the team"(page, person) {
    await person.follow(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Groups" }));
    const open = page.locator("tr[data-row] a.open").first();
    const title = await open.textContent();
    await person.follow(open);
    const opened = new URL(page.url()).pathname;
    await person.click(page.getByRole("button", { name: "Copy for a message" }));
    await said(page);
    const [line, link] = (await copied(page)).split("\n");
    if (!line.startsWith(`${title}: `) || !link?.startsWith(`${base}/groups/`)) fail(`the message is ${line} ${link}`);
    await page.goto(link);
    if (new URL(page.url()).pathname !== opened) fail(`the link of the message leads to ${page.url()}`);
  },
};

// The tenant allows the search by ids of persons.
async function allowPersons() {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${base}/v1/person-search`, { method: "PUT", headers, body: '{"enabled":true}' });
  if (!answer.ok) throw new Error(`the switch answers ${answer.status}`);
}

async function answer(browser) {
  await allowPersons();
  const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(LONGEST);
  page.on("pageerror", (error) => fail(`${page.url()}: ${error.message}`));
  await page.goto(`${base}/console/sign-in`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${base}/console`);
  for (const [name, flow] of Object.entries(flows)) {
    await page.goto(`${base}/console?app=${encodeURIComponent(app)}`);
    const person = new Person(page);
    await flow(page, person);
    console.log(`${name}: ${person.count} interactions`);
    if (person.count > MOST_INTERACTIONS) fail(`${name} takes ${person.count} interactions`);
  }
}

const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  timeout: LONGEST,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  await answer(browser);
} catch (error) {
  fail(error.stack ?? String(error));
} finally {
  await browser.close();
}
process.exitCode = wrong.length === 0 ? 0 : 1;
