// Visits the console's pages of apps and prints what is wrong, and the reports by version that the pages say, as JSON.
// Usage: node console.mjs TOOLS BASE_URL API_KEY APP…     TOOLS has the packages of tests/console
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [tools, base, key, ...apps] = process.argv.slice(2);
const tool = createRequire(`${tools}/`);
const { chromium } = tool("playwright-core");
const axe = readFileSync(tool.resolve("axe-core/axe.min.js"), "utf8");
const [wrong, reports] = [[], {}];
const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  timeout: 600_000, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", "--disable-background-networking"],
});
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
page.setDefaultTimeout(600_000);
page.on("console", (message) => { if (message.type() === "error") wrong.push(`${page.url()}: ${message.text()}`); });
page.on("pageerror", (error) => wrong.push(`${page.url()}: ${error.message}`));

async function audit() {
  const found = await page.evaluate(`${axe}; globalThis.axe.run()`);
  for (const one of found.violations) wrong.push(`${page.url()}: ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`);
}

async function visit(path) {
  const answer = await page.goto(base + path, { waitUntil: "load" });
  if (!answer.ok() || page.url() !== base + path) wrong.push(`${path}: ${answer.status()} at ${page.url()}`);
  await audit();
}

try {
  await page.goto(`${base}/console/groups`);
  await page.getByLabel("API key").fill(key);
  await page.getByLabel("Your name").fill("Robin");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${base}/console/groups`);
  for (const path of ["", "/symbols", "/dead-letters", "/keys", "/audit-log", "/alerts"]) await visit(`/console${path}`);
  for (const app of apps) {
    for (const list of ["groups", "reports"]) {
      await visit(`/console/${list}?app=${app}`);
      const first = page.locator("tr[data-row] a.open").first();
      if (await first.count()) await visit(await first.getAttribute("href"));
    }
    await visit(`/console/health?app=${app}`);
    await visit(`/console/versions?app=${app}`);
    const rows = page.locator("table.versions tr[data-row]");
    reports[app] = Object.fromEntries(await rows.evaluateAll((all) => all.map((row) => [
      row.querySelector("a.open").textContent, Number(row.querySelector("[data-label=Reports] [data-figure]").dataset.figure)])));
  }
} catch (error) {
  wrong.push(String(error));
}
await browser.close();
console.log(JSON.stringify({ wrong, reports }));
