// Takes the pictures of docs/console.md, README.md and of a review: pages of the demo's data in a browser.
// Usage: node pictures.mjs BASE_URL API_KEY FOLDER [WIDTH]
import { chromium } from "playwright-core";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const [base, key, folder, width = "1280"] = process.argv.slice(2);
const APP = "com.example.cafe";
// The first row of a list leads to the page.
const PAGES = {
  overview: { path: "/console" },
  groups: { path: `/console/groups?app=${APP}&sort=reports` },
  group: { list: `/console/groups?app=${APP}&sort=reports` },
  report: { list: `/console/reports?app=${APP}&fatal=true` },
  version: { path: `/console/version?app=${APP}&version=2.5.0` },
  health: { path: `/console/health?app=${APP}` },
};

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
});
const page = await browser.newPage({ viewport: { width: Number(width), height: 900 }, colorScheme: "light" });
await page.goto(`${base}/console`);
await page.getByLabel("API key").fill(key);
await page.getByRole("button", { name: "Sign in" }).click();
await page.waitForURL(`${base}/console`);
for (const [name, { path, list }] of Object.entries(PAGES)) {
  await page.goto(base + (path ?? list));
  if (list) await page.goto(base + await page.locator("tr[data-row] a.open").first().getAttribute("href"));
  await page.screenshot({ path: join(folder, `console-${name}.png`) });
}
await browser.close();
