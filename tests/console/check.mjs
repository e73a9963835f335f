// Visits the console in a browser as a person would, and says what is wrong.
// Usage: node check.mjs BASE_URL API_KEY [FOLDER]     with a folder, writes screenshots into it instead
import { chromium } from "playwright-core";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [base, key, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wrong = [];
const fail = (what) => { wrong.push(what); console.error(`WRONG ${what}`); };
const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function opened(options) {
  const context = await browser.newContext({ ...options, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.on("console", (message) => {
    // A refused sign-in, an address that is none and a file that is no upload are looked at on purpose.
    if (message.type() === "error" && !/status of 4(?:01|04|15)/.test(message.text())) fail(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => fail(`${page.url()}: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("data:")) fail(`a request to another host: ${url}`);
  });
  return { context, page };
}

async function signIn(page) {
  await page.goto(`${base}/console/groups?sort=reports`);
  await page.getByLabel("API key").fill("unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("API key").fill(key);
  await page.getByLabel("Your name").fill("Robin");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${base}/console/groups?sort=reports`);
}

// Every kind of page, with what the data has.
async function pages(page) {
  const paths = { overview: "/console", groups: "/console/groups", reports: "/console/reports",
    captures: "/console/captures", versions: "/console/versions", health: "/console/health", symbols: "/console/symbols", "dead-letters": "/console/dead-letters",
    keys: "/console/keys", audit: "/console/audit-log", settings: "/console/settings", alerts: "/console/alerts", "no-groups": "/console/groups?q=there+is+no+such+group", "not-found": "/console/nowhere" };
  const lists = { group: ["/console/groups"], capture: ["/console/captures"],
    report: ["/console/reports?status=partial", "/console/reports?status=complete"] };
  for (const [name, candidates] of Object.entries(lists)) {
    for (const list of candidates) {
      await page.goto(base + list);
      const rows = page.locator("tr[data-row] a.open");
      if (!paths[name] && await rows.count()) paths[name] = await rows.last().getAttribute("href");
    }
    if (!paths[name]) throw new Error(`the data has no ${name}`);
  }
  // A capture and a report share a session.
  await page.goto(base + paths.capture);
  paths.session = await page.getByRole("link", { name: "Its session" }).getAttribute("href");
  await page.goto(base + paths.session);
  for (const what of [/^The session began/, /^A report: /, /^Metrics /, /^A capture: /, /^The session ended/]) {
    if ((await page.locator("tbody td:first-child").filter({ hasText: what }).count()) === 0) fail(`${paths.session} has no ${what}`);
  }
  await page.goto(`${base}/console/groups?kind=hang`);
  const hang = page.locator("tr[data-row] a.open").first();
  if (!(await hang.count())) throw new Error("the data has no hang");
  paths.hang = await hang.getAttribute("href");
  paths.flame = `${paths.hang}/flame`;
  paths.explain = paths.report.replace(/(\?|$)/, "/explain$1");
  return paths;
}

async function audit(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  for (const violation of found.violations) {
    fail(`axe on ${name}: ${violation.id}: ${violation.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) fail(`${name} is ${wide} px wider than the window`);
}

async function keyboard(page) {
  const at = async (path) => { await page.waitForURL((url) => url.pathname === path); };
  await page.goto(`${base}/console`);
  await page.keyboard.press("g"); await page.keyboard.press("r");
  await at("/console/reports");
  await page.keyboard.press("g"); await page.keyboard.press("s");
  await at("/console/symbols");
  await page.keyboard.press("g"); await page.keyboard.press("g");
  await at("/console/groups");
  await page.keyboard.press("/");
  if (!(await page.evaluate(() => document.activeElement?.name === "q"))) fail("/ does not focus the search");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j"); await page.keyboard.press("Enter");
  await page.waitForURL(/\/console\/groups\/[0-9a-f-]{36}/);
  await page.keyboard.press("?");
  if (!(await page.locator("#help").evaluate((dialog) => dialog.open))) fail("? does not show the keys");
  await page.keyboard.press("Escape");
  await page.keyboard.press("g"); await page.keyboard.press("o");
  await at("/console");
}

async function copying(page, report) {
  await page.goto(base + report);
  await page.keyboard.press("c");
  await page.getByText("Copied").waitFor();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  if (!/^Thread \d+ Crashed:|^Last Exception/.test(text)) fail(`c copied ${JSON.stringify(text.slice(0, 80))}`);
}

// From box to box by keys, into one and back, and to a function by its name.
async function flame(page, path) {
  await page.goto(base + path);
  const boxes = page.locator(".unslide-flame");
  const shown = () => page.locator(".unslide-flame:not([display])").count();
  const [all, about] = [await shown(), page.locator("[data-flame-about]")];
  await boxes.first().focus();
  const root = await about.textContent();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  if ((await about.textContent()) === root) fail("the arrow keys lead nowhere in a flame graph");
  if ((await page.locator(".unslide-flame[tabindex='0']").count()) !== 1) fail("a flame graph is more than one stop of the Tab key");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Show all" }).waitFor();
  await page.keyboard.press("Escape");
  if ((await shown()) !== all) fail("Escape does not show the whole flame graph");
  const name = (await boxes.last().locator("title").textContent()).split(" \u2014 ")[0];
  await page.getByLabel("Find a function").fill(name);
  await page.getByText(/^\d+ box(es)?, \d+\.\d % of the samples$/).waitFor();
  if ((await page.locator(".unslide-flame.match").count()) === 0) fail("the search marks no function");
  await audit(page, "flame graph with a search");
  const versions = await page.getByLabel("compared with").locator("option").evaluateAll((all) => all.map((one) => one.value));
  if (versions.length > 1) {
    await page.goto(`${base}${path}?compare=${encodeURIComponent(versions[1])}`);
    await page.getByRole("heading", { name: "What has changed" }).waitFor();
    await audit(page, "difference of two versions");
  }
}

// What a team does with a bug: say who cares for it, resolve it, open it again, and be told of the next one.
async function work(page, group) {
  await page.goto(`${base}/console/alerts`);
  await page.getByLabel("Name").fill("new bugs");
  await page.getByLabel("Receiver").selectOption("slack");
  await page.getByLabel("Address").fill("https://hooks.example.com/services/secret");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByText("https://hooks.example.com/…").waitFor();
  await audit(page, "alerts with a rule");
  await page.goto(base + group);
  await page.getByRole("button", { name: "Ignore" }).click();
  await page.getByRole("button", { name: "Reopen" }).click();
  await page.getByRole("button", { name: "Ignore" }).waitFor();
  await audit(page, "group with activity");
}

// A file is chosen, and another one is dropped: both are listed once they are stored.
async function uploading(page) {
  await page.goto(`${base}/console/symbols`);
  const bytes = [0xcf, 0xfa, 0xed, 0xfe, 0, 0, 0, 0];
  await page.locator("form.upload input").setInputFiles({ name: "Chosen", mimeType: "application/octet-stream", buffer: Buffer.from(bytes) });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByText("Chosen", { exact: true }).first().waitFor();
  await page.waitForLoadState();
  const dropped = await page.evaluateHandle((bytes) => {
    const files = new DataTransfer();
    files.items.add(new File([new Uint8Array([...bytes, 1])], "Dropped"));
    return files;
  }, bytes);
  await page.locator("form.upload").dispatchEvent("drop", { dataTransfer: dropped });
  await page.getByText("Dropped", { exact: true }).first().waitFor();
  await page.waitForLoadState();
  await page.locator("form.upload input").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.locator("form.upload [role=status]").filter({ hasText: "an upload is" }).waitFor();
}

async function withoutScript(paths) {
  const { context, page } = await opened({ javaScriptEnabled: false });
  await signIn(page);
  await page.goto(base + paths.report);
  if ((await page.locator(".call-frame").count()) === 0) fail("without the script a report has no frames");
  await page.goto(base + paths.flame);
  if ((await page.locator(".unslide-flame").count()) < 2) fail("without the script a flame graph has no boxes");
  await page.goto(`${base}/console/groups`);
  await page.getByRole("button", { name: "Show" }).click();
  if ((await page.locator("tr[data-row]").count()) === 0) fail("without the script there are no groups");
  await context.close();
}

async function check() {
  let paths = {};
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [390, 1440]) {
      const { context, page } = await opened({ colorScheme, viewport: { width, height: 900 } });
      await page.goto(`${base}/console/sign-in`);
      await audit(page, `sign-in, ${colorScheme}, ${width}`);
      await signIn(page);
      paths = await pages(page);
      for (const [name, path] of Object.entries(paths)) {
        if (name === "not-found") continue;
        const answer = await page.goto(base + path);
        if (answer.status() !== 200) fail(`${path} answers ${answer.status()}`);
        await audit(page, `${name}, ${colorScheme}, ${width}`);
      }
      await context.close();
    }
  }
  const { context, page } = await opened({});
  await signIn(page);
  await keyboard(page);
  await copying(page, paths.report);
  await flame(page, paths.flame);
  await work(page, paths.group);
  await uploading(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${base}/console/sign-in`);
  await page.goto(`${base}/console/reports`);
  if (!page.url().startsWith(`${base}/console/sign-in`)) fail("a page is shown after the sign-out");
  await context.close();
  await withoutScript(paths);
}

async function screens() {
  mkdirSync(folder, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [390, 900, 1440]) {
      const { context, page } = await opened({ colorScheme, viewport: { width, height: 900 } });
      await page.goto(`${base}/console/sign-in`);
      await page.screenshot({ path: `${folder}/sign-in-${colorScheme}-${width}.png` });
      await signIn(page);
      for (const [name, path] of Object.entries(await pages(page))) {
        await page.goto(base + path);
        const height = Math.min(await page.evaluate(() => document.documentElement.scrollHeight), 2400);
        const clip = { x: 0, y: 0, width, height };
        await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png`, fullPage: true, clip });
      }
      await context.close();
    }
  }
}

try {
  await (folder ? screens() : check());
} catch (error) {
  fail(error.stack ?? String(error));
} finally {
  await browser.close();
}
console.log(wrong.length === 0 ? "the console is as it should be" : `${wrong.length} things are wrong`);
process.exitCode = wrong.length === 0 ? 0 : 1;
