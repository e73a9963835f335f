// Visits the console in a browser as a person would, and says what is wrong.
// Usage: node check.mjs BASE_URL API_KEY [FOLDER]     with a folder, writes screenshots into it instead
import { chromium } from "playwright-core";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [base, key, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// The app that most of the data is of, and the one with a report of 1,000 threads of 200 frames.
const [APP, LARGE] = ["com.example.shop", "com.example.large"];
// Of the page of that report with every thread open that is in it.
const MOST_ELEMENTS = 60_000;
// Milliseconds that one step may take while other tests use the machine.
const LONGEST = 180_000;
// Of the window, in px; and the widths at which all rules of accessibility are tried. A window of 1280 px has 640 at a zoom of 200 %.
const WIDTHS = [390, 320, 640, 768, 900, 1024, 1280, 1440, 1920];
// The families of `scripts/setup test`, each with its family of one width. They are what systems have for sans-serif, and differ by a fifth in
// their widths. The browser shows the first unless a page names another.
const FONTS = [["DejaVu Sans", "DejaVu Sans Mono"], ["Liberation Sans", "Liberation Mono"], ["Noto Sans", "Noto Sans Mono"]];
const AUDITED = [390, 1440];
// Pages that have another layout in the widest window.
const AUDITED_WIDE = /^(hostile-)?(group|report)$/;
const wrong = [];
const fail = (what) => { wrong.push(what); console.error(`WRONG ${what}`); };
const browser = await chromium.launch({
  executablePath: process.env.UNSLIDE_CHROMIUM ?? "/usr/bin/chromium",
  timeout: LONGEST,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function opened(options) {
  const context = await browser.newContext({ ...options, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(LONGEST);
  page.on("console", (message) => {
    // A refused sign-in or form, an address that is none and a file that is no upload are looked at on purpose.
    if (message.type() === "error" && !/status of 4(?:00|01|04|15)/.test(message.text())) fail(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => fail(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => { fail(`${page.url()}: a text of others opened a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("data:")) fail(`a request to another host: ${url}`);
  });
  return { context, page };
}

// Clicks what leads to another page and waits for all of that page.
async function follow(page, locator) {
  await Promise.all([page.waitForEvent("load"), locator.click()]);
}

// Presses a button of a form and waits for the page that comes of it.
async function submit(page, name) {
  await follow(page, page.getByRole("button", { name }).first());
}

// What the page says because of an action. It is heard inside the page: there it goes away after a moment.
async function said(page, action) {
  await page.evaluate((longest) => {
    const said = document.getElementById("said");
    globalThis.heard = new Promise((done, failed) => {
      new MutationObserver(() => done(said.textContent)).observe(said, { childList: true });
      setTimeout(failed, longest, new Error("the page says nothing"));
    });
  }, LONGEST);
  await action();
  return page.evaluate(() => globalThis.heard);
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
    captures: "/console/captures", versions: `/console/versions?app=${APP}`, health: `/console/health?app=${APP}`, symbols: "/console/symbols", "system-symbols": "/console/system-symbols", uploaders: "/console/uploaders", "dead-letters": "/console/dead-letters",
    keys: "/console/keys", audit: "/console/audit-log", data: "/console/data", settings: "/console/settings", alerts: "/console/alerts", trackers: "/console/trackers", chat: "/console/chat", assistants: "/console/assistants", owners: "/console/owners", "own-keys": "/console/own-keys",
    testflight: "/console/testflight", "public-keys": "/console/public-keys", costs: "/console/costs", "person-erasures": "/console/person-erasures", tenants: "/console/tenants?sort=full", search: "/console/search?q=example", "no-groups": "/console/groups?q=there+is+no+such+group", "not-found": "/console/nowhere" };
  const lists = { group: [`/console/groups?app=${APP}`], capture: ["/console/captures"],
    report: [`/console/reports?app=${APP}&status=partial`, `/console/reports?app=${APP}&status=complete`] };
  for (const [name, candidates] of Object.entries(lists)) {
    for (const list of candidates) {
      await page.goto(base + list);
      const rows = page.locator("tr[data-row] a.open");
      if (!paths[name] && await rows.count()) paths[name] = await rows.last().getAttribute("href");
    }
    if (!paths[name]) throw new Error(`the data has no ${name}`);
  }
  for (const form of ["ticket", "send"]) paths[`group-${form}`] = `${paths.group.split("?")[0]}/${form}`;
  // The newest capture is compared with the one before it.
  await page.goto(`${base}/console/captures`);
  await page.goto(base + await page.locator("tr[data-row] a.open").first().getAttribute("href"));
  paths.compare = await page.getByRole("link", { name: "With the previous one" }).getAttribute("href");
  Object.assign(paths, await hostile(page));
  // A capture and a report share a session.
  await page.goto(base + paths.capture);
  paths.session = await page.getByRole("link", { name: "Its session" }).getAttribute("href");
  await page.goto(base + paths.session);
  for (const what of [/^The session began/, /^A report: /, /^Metrics /, /^A capture: /, /^The session ended/]) {
    if ((await page.locator("tbody td:first-child").filter({ hasText: what }).count()) === 0) fail(`${paths.session} has no ${what}`);
  }
  await page.goto(base + paths.health);
  paths.breakdown = await page.getByRole("link", { name: "by device and system" }).first().getAttribute("href");
  await page.goto(base + paths.breakdown);
  for (const heading of ["By device", "By system"]) await page.getByRole("heading", { name: heading }).waitFor();
  await page.goto(`${base}/console/dead-letters`);
  paths["dead-letter"] = await page.locator("details[data-part]").first().getAttribute("data-part");
  await page.goto(`${base}/console/groups?kind=hang`);
  const hang = page.locator("tr[data-row] a.open").first();
  if (!(await hang.count())) throw new Error("the data has no hang");
  paths.hang = await hang.getAttribute("href");
  paths.flame = `${paths.hang}/flame`;
  await page.goto(`${base}/console/versions?app=${APP}`);
  paths.version = await page.locator("tr[data-row] a.open").first().getAttribute("href");
  paths.explain = paths.report.replace(/(\?|$)/, "/explain$1");
  return paths;
}

// The pages of an app of which everything is called by markup.
async function hostile(page) {
  await page.goto(`${base}/console/groups`);
  const apps = await page.locator("select[name=app] option").evaluateAll((all) => all.map((one) => one.value));
  const app = apps.find((name) => name.includes("<script>"));
  if (!app) throw new Error("the data has no hostile names");
  const paths = {};
  for (const list of ["groups", "reports", "versions"]) paths[`hostile-${list}`] = `/console/${list}?app=${encodeURIComponent(app)}`;
  for (const list of ["groups", "reports"]) {
    await page.goto(base + paths[`hostile-${list}`]);
    paths[`hostile-${list.slice(0, -1)}`] = await page.locator("tr[data-row] a.open").first().getAttribute("href");
  }
  return paths;
}

// The context of a report, and its shares in the group.
async function contextOf(page, paths) {
  await page.goto(base + paths.report);
  for (const heading of ["Keys", "Breadcrumbs", "State of the app", "State of the device", "Log"]) {
    await page.getByRole("heading", { name: heading, exact: true }).waitFor();
  }
  await page.getByText("iPhone 15 Pro (iPhone16,1)").waitFor();
  await follow(page, page.getByRole("link", { name: "Group of this report" }));
  await page.getByRole("heading", { name: "State and keys" }).waitFor();
  await page.locator("select[name=key1]").selectOption("plan");
  await submit(page, "Show values");
  await page.getByRole("table", { name: /^Reports by plan/ }).waitFor();
}

// No page is wider than the window, whatever font the system has.
async function fits(page, name) {
  const found = await page.evaluate((fonts) => {
    const root = document.documentElement;
    const most = root.clientWidth;
    const inside = (one) => one.closest(".scroll, pre, .side, .blocks thead");
    const places = [...document.querySelectorAll("main td, main th, main dd, main h2, main .copy")].filter((one) => !inside(one));
    const measured = fonts.map(([sans, mono]) => {
      root.style.setProperty("--sans", `"${sans}"`);
      root.style.setProperty("--mono", `"${mono}"`);
      const cut = places.filter((one) => one.getBoundingClientRect().right > most + 1);
      return { font: sans, wide: root.scrollWidth - most, cut: cut.slice(0, 3).map((one) => one.textContent.trim().slice(0, 40)) };
    });
    root.removeAttribute("style");
    return measured.filter(({ wide, cut }) => wide > 0 || cut.length > 0);
  }, FONTS);
  for (const { font, wide, cut } of found) fail(`${name} is with ${font} ${wide} px wider than the window: ${JSON.stringify(cut)}`);
}

// The fonts are there, and a page has the one that it is measured with: a text has another width in each.
async function fontsAreThere(page) {
  const widths = await page.evaluate((fonts) => {
    const context = document.createElement("canvas").getContext("2d");
    const width = (family) => { context.font = `100px "${family}", serif`; return context.measureText("Reports by version").width; };
    return fonts.flat().map(width);
  }, FONTS);
  const sans = widths.filter((_, at) => at % 2 === 0);
  if (new Set(sans).size !== FONTS.length) fail(`the fonts of \`scripts/setup test\` are missing: ${widths}`);
}

// Not among the usual rules: what can be pressed is 24 px wide and high, or has the room of that around it.
const ALL_RULES = { rules: { "target-size": { enabled: true } } };
const COLOURS = { runOnly: ["color-contrast"] };

async function audit(page, name, rules = ALL_RULES) {
  await page.waitForLoadState();
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  // Selectors of what has no fault would take most of the time.
  const found = await page.evaluate((rules) => globalThis.axe.run({ ...rules, resultTypes: ["violations"] }), rules);
  for (const violation of found.violations) {
    fail(`axe on ${name}: ${violation.id}: ${violation.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  }
  await fits(page, name);
}

// The names of the stack are on one line and cut in their middle. Each file with its line, and what each frame is, stay in sight.
async function longNames(page, width) {
  const found = await page.locator(".stack").first().evaluate((stack) => {
    const box = stack.getBoundingClientRect();
    const outside = (one) => [...one.getClientRects()].some((at) => at.left < box.left - 1 || at.right > box.right + 1);
    const all = [...stack.querySelectorAll(".explain, .word, .loc, .fn .end, .copy button")];
    return {
      scrolled: stack.scrollWidth - stack.clientWidth,
      wrapped: [...stack.querySelectorAll(".fn")].filter((one) => one.getBoundingClientRect().height > 30).length,
      untitled: [...stack.querySelectorAll(".fn[title]")].filter((one) => one.title !== one.textContent).length,
      explained: stack.querySelectorAll("a.explain").length,
      outside: all.filter(outside).map((one) => one.textContent),
    };
  });
  if (found.scrolled > 0 || found.wrapped > 0 || found.untitled > 0 || found.explained === 0 || found.outside.length > 0) {
    fail(`a stack with long names at ${width} px: ${JSON.stringify(found)}`);
  }
}

// A wide window has the facts and actions beside what happened, any other one below it or above.
async function factsBeside(page, name, isWide) {
  const [state, evidence] = await Promise.all([".subject > .state", ".subject > .evidence"].map((part) => page.locator(part).boundingBox()));
  if (isWide !== state.x > evidence.x + evidence.width - 1) fail(`${name}: the facts are ${isWide ? "not " : ""}beside the stack`);
}

// A version's page from the list of versions, times on hover, filters on a phone, and where a page stands after a form.
async function comforts(page, paths) {
  await page.goto(base + paths.version);
  for (const heading of ["Health", "Came back in this version", "New in this version", "Growing in this version", "Missing dSYMs"]) {
    await page.getByRole("heading", { name: heading, exact: true }).waitFor();
  }
  await page.goto(base + paths.group);
  await page.locator("time").first().hover();
  const title = await page.locator("time").first().getAttribute("title");
  if (!/ UTC \u00b7 .*\d/.test(title)) fail(`a time says ${title} on hover`);
  await page.getByLabel("Comment", { exact: true }).fill("Here I stand. See https://example.com/a?b=c.");
  await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Comment", exact: true }).click()]);
  await page.getByText("Here I stand.").first().waitFor();
  await page.locator("p.comment a[href='https://example.com/a?b=c'][rel='noopener nofollow']").first().waitFor();
  await page.waitForFunction(() => scrollY > 100);
  await page.getByText("Change…", { exact: true }).first().click();
  await page.getByLabel("Changed comment").first().fill("Here I stood.");
  await submit(page, "Change the comment");
  await page.getByText("Here I stood.").first().waitFor();
  await page.getByText("Change…", { exact: true }).first().click();
  await submit(page, "Delete the comment");
  await page.getByText("deleted a comment").first().waitFor();
  const told = await said(page, () => page.getByRole("button", { name: "Copy as Markdown" }).click());
  const text = await page.evaluate(() => navigator.clipboard.readText());
  if (told !== "Copied" || !text.startsWith("#")) fail(`Copy as Markdown copies ${JSON.stringify(text.slice(0, 80))}`);
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 900 });
  await page.goto(`${base}/console/groups?app=${APP}`);
  const field = page.locator("select[name=status]");
  if (await field.isVisible()) fail("on a phone the filters are not folded");
  await page.locator(".filters > summary", { hasText: APP }).click();
  await field.waitFor();
  await page.setViewportSize(before);
}

// A bar says its values under the pointer and by the arrow keys. A group has its days by version, and its last hours.
async function charts(page, paths) {
  await page.goto(base + paths.group);
  const chart = page.locator("[data-bars]").first();
  const tip = chart.locator(".tip");
  await chart.focus();
  await tip.filter({ hasText: /: \d/ }).waitFor();
  await audit(page, "a chart with a value");
  const last = await chart.getAttribute("aria-valuetext");
  await page.keyboard.press("ArrowLeft");
  const before = await chart.getAttribute("aria-valuetext");
  if (before === last || !before.includes(": ")) fail(`the bar before ${last} is ${before}`);
  await page.keyboard.press("Escape");
  if (await tip.isVisible()) fail("Escape does not hide the values of a chart");
  const { width, height } = await chart.boundingBox();
  await chart.hover({ position: { x: width - 2, y: height / 2 } });
  if ((await tip.textContent()).replaceAll("\n", ", ") !== last) fail(`the last bar says ${await tip.textContent()}, not ${last}`);
  await follow(page, page.getByRole("link", { name: "48 hours" }));
  await page.getByRole("heading", { name: "Reports in the last 48 hours" }).waitFor();
  await page.getByText("Hours are counted for all versions together").waitFor();
  if ((await page.locator("[data-bars] g").count()) !== 48) fail("48 hours are not 48 bars");
  await audit(page, "the hours of a group");
  await page.goto(`${base}${paths.group.split("?")[0]}?version=1.2`);
  const version = page.locator("#trend select[name=version]");
  if ((await version.inputValue()) !== "1.2") fail("the chart of a version does not name it");
  await Promise.all([page.waitForEvent("load"), version.selectOption("")]);
  await page.getByRole("heading", { name: "Reports in the last 30 days" }).waitFor();
}

async function keyboard(page) {
  const at = async (path) => { await page.waitForURL((url) => url.pathname === path); };
  // The second key of a pair counts only soon after the first: for the pages no time passes.
  await page.addInitScript(() => { const now = Date.now(); Date.now = () => now; });
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
  await page.keyboard.press("Control+k");
  if (!(await page.evaluate(() => document.activeElement?.closest("#search")))) fail("Ctrl-K does not focus the search");
  await page.keyboard.type("example");
  await page.keyboard.press("Enter");
  await at("/console/search");
  await page.getByRole("heading", { name: "Apps" }).waitFor();
  await page.goBack();
  await at("/console/groups");
  await page.keyboard.press("j"); await page.keyboard.press("Enter");
  await page.waitForURL(/\/console\/groups\/[0-9a-f-]{36}/);
  await page.keyboard.press("?");
  if (!(await page.locator("#help").evaluate((dialog) => dialog.open))) fail("? does not show the keys");
  await page.locator("#single-keys").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  if (await page.evaluate(() => document.activeElement?.name === "q")) fail("a single key works though they are switched off");
  await page.getByRole("button", { name: "Keyboard", exact: true }).click();
  await page.locator("#single-keys").check();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g"); await page.keyboard.press("o");
  await at("/console");
}

async function copying(page, report) {
  await page.goto(base + report);
  const told = await said(page, () => page.keyboard.press("c"));
  if (told !== "Copied") fail(`c says ${JSON.stringify(told)}`);
  const text = await page.evaluate(() => navigator.clipboard.readText());
  if (!/^Thread \d+ Crashed:|^Last Exception/.test(text)) fail(`c copied ${JSON.stringify(text.slice(0, 80))}`);
}

// The largest report: all of its threads are there, and the page is small enough to scroll. The times are printed, not judged.
async function large(page) {
  await page.goto(`${base}/console/reports?app=${LARGE}`);
  await follow(page, page.locator("tr[data-row] a.open").first());
  await page.getByRole("heading", { name: "Other threads" }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  const threads = page.locator("details.thread:has(summary .top-frame)");
  if ((await threads.count()) !== 999) fail(`of 1,000 threads ${await threads.count()} others are shown`);
  await threads.last().locator("summary").click();
  await threads.last().locator(".call-frame").first().waitFor();
  await page.evaluate(() => document.querySelectorAll("details.thread:not([data-part])").forEach((one) => { one.open = true; }));
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  if (elements > MOST_ELEMENTS) fail(`the page of a large report has ${elements} elements`);
  const longest = await page.evaluate(async () => {
    let [longest, before] = [0, await new Promise(requestAnimationFrame)];
    for (let step = 0; step < 100; step += 1) {
      window.scrollBy(0, 300);
      const now = await new Promise(requestAnimationFrame);
      [longest, before] = [Math.max(longest, now - before), now];
    }
    return longest;
  });
  console.log(`1,000 threads of 200 frames: first paint after ${Math.round(paint)} ms, ${elements} elements, the longest frame while scrolling ${Math.round(longest)} ms`);
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

// Two groups of one app: no others can be merged.
async function groupsOfOneApp(page) {
  await page.goto(`${base}/console/groups`);
  const apps = await page.locator("select[name=app] option").evaluateAll((all) => all.map((one) => one.value).filter(Boolean));
  for (const app of apps) {
    await page.goto(`${base}/console/groups?app=${encodeURIComponent(app)}`);
    const found = await page.locator("tr[data-row] a.open").evaluateAll((all) => all.map((one) => one.getAttribute("href").split("?")[0]));
    if (found.length > 1) return found;
  }
  throw new Error("no app has two groups");
}

// What a team does with a bug: subscribe to the next one, say who cares for it, resolve it, open it again, and merge
// another one into it that turns out to be another after all.
async function work(page) {
  await page.goto(`${base}/console/alerts`);
  await page.getByLabel("Name").fill("new bugs");
  await page.locator("select[name=condition]").selectOption("new_group");
  await page.getByLabel(/^Receiver/).selectOption("slack");
  await page.getByLabel("Address").fill("https://hooks.example.com/services/secret");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByText("https://hooks.example.com/…").waitFor();
  await audit(page, "alerts with a rule");
  const before = page.viewportSize();
  await auditedOpen(page, "alerts with a rule");
  await page.setViewportSize(before);
  await page.reload();
  await page.getByText("Change…").first().click();
  await page.getByRole("button", { name: "Mute for 24 h" }).click();
  await page.getByText("muted for 24 h").waitFor();
  const [group, other] = await groupsOfOneApp(page);
  await page.goto(base + group);
  await page.getByRole("button", { name: "Ignore" }).click();
  await page.getByRole("button", { name: "Reopen" }).click();
  await page.getByRole("button", { name: "Ignore" }).waitFor();
  await audit(page, "group with activity");
  await page.getByLabel("Assignee").fill("Kim");
  await page.getByRole("button", { name: "Assign", exact: true }).click();
  await page.getByText("assigned it to Kim").waitFor();
  await page.getByLabel("in version").fill("99.9");
  await page.getByRole("button", { name: "Resolve" }).click();
  await page.getByText("resolved it in 99.9").waitFor();
  await page.getByRole("button", { name: "Reopen" }).click();
  await page.getByRole("button", { name: "Resolve" }).waitFor();
  await page.getByLabel("Comment").fill("It is the cart.");
  await page.getByRole("button", { name: "Comment" }).click();
  await page.locator("p.comment", { hasText: "It is the cart." }).waitFor();
  await page.getByText("Merge groups into this one…").click();
  await page.getByLabel("Ids or addresses").fill(base + other);
  await page.getByRole("button", { name: "Merge" }).click();
  await page.getByRole("heading", { name: "Merged groups" }).waitFor();
  await audit(page, "group with another merged into it");
  await page.getByRole("button", { name: "Split" }).click();
  await page.getByText("split off a group").waitFor();
}

// The morning's triage by keys: a filter is saved, groups are ticked and changed, and a form that is refused keeps its fields.
async function triage(page) {
  const [group] = await groupsOfOneApp(page);
  const list = page.url();
  await page.getByText("Save this view").first().click();
  await page.getByLabel("Name", { exact: true }).fill("Morning");
  await submit(page, "Save");
  await page.getByRole("navigation", { name: "Saved views" }).getByRole("link", { name: "Morning" }).waitFor();
  await audit(page, "groups with a saved view");
  await page.keyboard.press("j"); await page.keyboard.press("x");
  if (!(await page.locator(".tick input").first().isChecked())) fail("x does not tick the row");
  await page.keyboard.press("a");
  await page.getByLabel("Assignee").fill("Kim");
  await submit(page, "Assign");
  await page.getByText("1 group was changed").waitFor();
  await submit(page, "Undo");
  await page.getByText("assigned to Kim").waitFor({ state: "detached" });
  await submit(page, "Undo");
  await page.getByText("assigned to Kim").first().waitFor();
  await page.keyboard.press("j");
  await Promise.all([page.waitForEvent("load"), page.keyboard.press("i")]);
  await page.goto(`${list}&status=ignored`);
  await page.locator(".tick input").first().check();
  await submit(page, "Reopen");
  await page.goto(base + group);
  await page.getByText("Link a ticket…", { exact: true }).click();
  await page.getByLabel("Address", { exact: true }).fill("ftp://tickets.example.com/1");
  await page.getByRole("button", { name: "Link" }).click();
  await page.getByRole("alert").filter({ hasText: "ticket_url" }).waitFor();
  if ((await page.getByLabel("Address", { exact: true }).inputValue()) !== "ftp://tickets.example.com/1") fail("a refused form forgets its fields");
  await audit(page, "a form that was refused");
  await page.getByLabel("Address", { exact: true }).fill("https://tickets.example.com/1");
  await submit(page, "Link");
  await page.getByRole("link", { name: "https://tickets.example.com/1" }).waitFor();
}

// Rules that a group's page suggests: they are looked at, tried and set, and taken back.
async function groupingRules(page) {
  const [group] = await groupsOfOneApp(page);
  await page.goto(base + group);
  await page.getByText("Split this group…").click();
  await page.getByRole("link", { name: "A grouping rule" }).click();
  const rules = page.locator("#grouping-rules textarea[name=text]").first();
  await rules.fill("ignore function there.is.no.such.function");
  await page.getByRole("button", { name: "Try on stored reports" }).first().click();
  await page.getByText(/^Of the newest .* would move/).waitFor();
  await audit(page, "a trial of grouping rules");
  await submit(page, "Set rules");
  if (!(await rules.inputValue()).includes("no.such")) fail("the rules are not set");
  await page.getByText("The rules before").click();
  await submit(page, "Restore them");
  if ((await rules.inputValue()).includes("no.such")) fail("the rules before are not restored");
}

// A rule of alerts is switched off and on, sends a test to another receiver, and is deleted.
async function alertRule(page) {
  const change = async (button) => {
    await page.getByText("Change…").first().click();
    await submit(page, button);
  };
  await page.goto(`${base}/console/alerts`);
  await change("Switch off");
  await change("Switch on");
  await page.getByText("Change…").first().click();
  await page.getByText("Another receiver…").first().click();
  await page.locator("form[action$='/receiver']").first().getByLabel(/^Receiver/).selectOption("kafka");
  await submit(page, "Change receiver");
  await change("Send a test");
  const sent = page.locator("tr", { hasText: "Test of the alert rule new bugs" }).getByRole("button", { name: "Send again" });
  for (let tries = 0; (await sent.count()) === 0; tries += 1) {
    if (tries === 400) throw new Error("the test message is not sent");
    await page.waitForTimeout(300);
    await page.reload();
  }
  await submit(page, "Send again");
  await audit(page, "alerts with a message");
  await change("Delete new bugs");
  await page.getByText("There are no rules yet").waitFor();
}

// The pages of the links in a message, which people open without a session: a new bug is sent to a receiver that this check plays.
async function messageLinks(page) {
  const received = new Promise((done) => {
    const server = createServer((request, answer) => {
      let body = "";
      request.on("data", (part) => { body += part; });
      request.on("end", () => {
        answer.end();
        const message = JSON.parse(body);
        if (message.events[0].firing) { server.close(); done(message); }
      });
    }).listen(Number(process.env.UNSLIDE_RECEIVER_PORT), "127.0.0.1");
    // A check that fails before the message ends all the same.
    server.unref();
  });
  await page.goto(`${base}/console/alerts`);
  const form = page.locator("form[action='/console/alerts']");
  await form.locator("[name=name]").fill("escalated");
  await form.locator("[name=condition]").selectOption("new_group");
  await form.locator("[name=channel]").selectOption("webhook");
  await form.locator("[name=address]").fill(`http://127.0.0.1:${process.env.UNSLIDE_RECEIVER_PORT}/`);
  await form.getByText("When", { exact: true }).click();
  await form.locator("[name=escalation]").selectOption({ label: "that of new bugs" });
  await form.locator("[name=escalation_minutes]").fill("60");
  await submit(page, "Create rule");
  // Of an app of its own: the steps after this one take the newest group of the others.
  const report = { report: { id: "00000000-0000-4000-8000-0000000000aa" }, system: { CFBundleIdentifier: "com.example.messages", CFBundleShortVersionString: "1.3" },
    crash: { error: { type: "nsexception", reason: "It is new.", nsexception: { name: "NewBugException" } }, threads: [] } };
  const sent = await fetch(`${base}/v1/reports`, { method: "POST", headers: { authorization: `Bearer ${key}` }, body: JSON.stringify(report) });
  if (sent.status !== 202) throw new Error(`the report is answered with ${sent.status}`);
  const message = await received;
  const { context, page: stranger } = await opened({});
  for (const [name, link, button] of [["acknowledge", message.events[0].firing.acknowledge_link, "Acknowledge"], ["mute", message.mute_link, "Mute for 24 h"]]) {
    await stranger.goto(base + new URL(link).pathname);
    await audited(stranger, name);
    await submit(stranger, button);
    await audited(stranger, `${name}, done`);
  }
  await context.close();
  const row = page.locator("tr[data-row]").filter({ has: page.getByRole("button", { name: "Delete escalated", includeHidden: true }) });
  await row.getByText("Change…").click();
  await submit(page, "Delete escalated");
}

// From a report to the next newer one of its group, and how a frame got its answer.
async function reportsOfGroup(page) {
  await page.goto(`${base}/console/reports?app=${APP}`);
  await page.locator("tr[data-row] a.open").last().click();
  const link = page.getByRole("link", { name: "Newer in the group" });
  const newer = await link.getAttribute("href");
  await link.click();
  await page.waitForURL(base + newer);
  await page.getByRole("link", { name: /^Explain frame/ }).first().click();
  await page.waitForURL(/\/explain/);
}

// What cannot be undone comes last: a record goes its way once more, and a capture is deleted.
async function last(page, capture) {
  await page.goto(`${base}/console/dead-letters`);
  await submit(page, "Replay");
  await page.locator("td", { hasText: /^replayed / }).first().waitFor();
  await page.goto(base + capture);
  await page.getByText("Delete…").click();
  await submit(page, "Delete the capture");
  if (new URL(page.url()).pathname !== "/console/captures") fail("a deleted capture leads elsewhere");
}

// A session ends while a form is filled in: nothing is lost, and the form is sent after the sign-in in another tab.
async function endedSession(page) {
  const [group] = await groupsOfOneApp(page);
  const fill = {
    [group]: { name: "Comment", button: "Comment", done: "Kept over the end of a session." },
    "/console/alerts": { name: "Name", button: "Create rule" },
    "/console/settings": { name: "App", button: "Add" },
  };
  for (const [path, { name, button, done }] of Object.entries(fill)) {
    await page.goto(base + path);
    const form = page.locator("form[method=post]").filter({ has: page.getByRole("button", { name: button, exact: true }) }).first();
    const field = form.getByLabel(name, { exact: true }).first();
    await field.fill(done ?? "kept");
    const cookies = await page.context().cookies();
    await page.context().clearCookies();
    await form.evaluate((one) => { one.noValidate = true; });
    await form.getByRole("button", { name: button, exact: true }).click();
    await form.getByRole("alert").filter({ hasText: "Your session has ended. Sign in in another tab, then send again." }).waitFor();
    if ((await field.inputValue()) !== (done ?? "kept")) fail(`${path} forgets a form at the end of a session`);
    const next = new URL(await form.getByRole("link", { name: "Sign in" }).getAttribute("href"), base).searchParams.get("next");
    if (next !== path) fail(`the way back from ${path} is ${next}`);
    await page.context().addCookies(cookies);
    if (!done) continue;
    await Promise.all([page.waitForEvent("load"), form.getByRole("button", { name: button, exact: true }).click()]);
    await page.locator("p.comment", { hasText: done }).waitFor();
  }
}

// Where an app's source code is.
async function settings(page) {
  await page.goto(`${base}/console/settings`);
  const form = page.locator("form").filter({ has: page.getByRole("button", { name: "Add", exact: true }) });
  await form.locator("[name=app]").fill("com.example.browser");
  await form.locator("[name=source_url]").fill("https://git.example.com/shop/blob/v{version}/{path}#L{line}");
  await form.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("button", { name: "Save com.example.browser" }).waitFor();
}

// A key is made, shown once with a way to copy it, and revoked.
async function keysOfTenant(page) {
  await page.goto(`${base}/console/keys`);
  await page.locator("[name=name]").fill("made in a browser");
  await page.locator("[name=scope][value='reports:read']").check();
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("heading", { name: "made in a browser" }).waitFor();
  await audit(page, "new key");
  const text = await page.locator(".copy code").textContent();
  const told = await said(page, () => page.getByRole("button", { name: "Copy" }).click());
  if (told !== "Copied") fail(`the button says ${JSON.stringify(told)}`);
  if ((await page.evaluate(() => navigator.clipboard.readText())) !== text) fail("the copied key is another text");
  await page.goto(`${base}/console/keys`);
  const row = page.locator("tr[data-row]").filter({ hasText: "made in a browser" });
  await row.getByText("Revoke…").click();
  await row.getByRole("button", { name: /^Revoke/ }).click();
  await page.locator("tr[data-row]").filter({ hasText: "made in a browser" }).getByText("revoked").first().waitFor();
}

// What is dead is looked at without leaving the list.
async function preview(page) {
  await page.goto(`${base}/console/dead-letters`);
  await page.locator("summary", { hasText: "Preview" }).first().click();
  await page.locator("pre", { hasText: '{"report":' }).waitFor();
  await audit(page, "dead letters with a preview");
}

// A file is chosen, another one is dropped, and a dSYM is chosen as a folder: all are listed once they are stored.
async function uploading(page) {
  await page.goto(`${base}/console/symbols`);
  const bytes = [0xcf, 0xfa, 0xed, 0xfe, 0, 0, 0, 0];
  await page.locator("form.upload input[name=file]").setInputFiles({ name: "Chosen", mimeType: "application/octet-stream", buffer: Buffer.from(bytes) });
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
  const dsym = join(mkdtempSync(join(tmpdir(), "unslide-console-")), "Shop.app.dSYM");
  mkdirSync(`${dsym}/Contents/Resources/DWARF`, { recursive: true });
  writeFileSync(`${dsym}/Contents/Info.plist`, "<plist/>");
  writeFileSync(`${dsym}/Contents/Resources/DWARF/InFolder`, Buffer.from([...bytes, 2]));
  await page.locator("form.upload input[webkitdirectory]").setInputFiles(dsym);
  await page.getByText("InFolder", { exact: true }).first().waitFor();
  await page.waitForLoadState();
  rmSync(join(dsym, ".."), { recursive: true });
  await page.locator("form.upload input[name=file]").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") });
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
  await submit(page, "Show");
  if ((await page.locator("tr[data-row]").count()) === 0) fail("without the script there are no groups");
  await context.close();
}

// The page in all widths and both colour schemes. In the dark one only colours differ.
async function audited(page, name) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    if (!AUDITED.includes(width) && !(width === 1920 && AUDITED_WIDE.test(name))) { await fits(page, `${name}, ${width}`); continue; }
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await audit(page, `${name}, ${colorScheme}, ${width}`, colorScheme === "dark" ? COLOURS : ALL_RULES);
    }
    await page.emulateMedia({ colorScheme: "light" });
    if (name === "hostile-report") await longNames(page, width);
    if (AUDITED_WIDE.test(name)) await factsBeside(page, `${name}, ${width}`, width === 1920);
  }
}

// Pages whose forms are opened, too.
const OPENED = ["group", "alerts", "trackers", "chat", "owners", "own-keys", "keys", "settings", "uploaders", "public-keys"];

// Opens every form of the page that is folded, in all widths and both colour schemes.
async function auditedOpen(page, name) {
  await page.evaluate(() => { for (const one of document.querySelectorAll("main details")) one.open = true; });
  await audited(page, `${name} with its forms open`);
}

async function everyPage() {
  const { context, page } = await opened({ viewport: { width: WIDTHS[0], height: 900 } });
  await page.goto(`${base}/console/sign-in`);
  await fontsAreThere(page);
  await audited(page, "sign-in");
  await signIn(page);
  const paths = await pages(page);
  for (const [name, path] of Object.entries(paths)) {
    if (name === "not-found") continue;
    await page.setViewportSize({ width: WIDTHS[0], height: 900 });
    const answer = await page.goto(base + path);
    if (answer.status() !== 200) fail(`${path} answers ${answer.status()}`);
    await audited(page, name);
    if (OPENED.includes(name)) await auditedOpen(page, name);
  }
  await context.close();
  return paths;
}

async function check() {
  const paths = await everyPage();
  const { context, page } = await opened({});
  await signIn(page);
  await contextOf(page, paths);
  await keyboard(page);
  await copying(page, paths.report);
  await flame(page, paths.flame);
  await charts(page, paths);
  await comforts(page, paths);
  await work(page);
  await endedSession(page);
  await triage(page);
  await settings(page);
  await preview(page);
  await keysOfTenant(page);
  await uploading(page);
  await messageLinks(page);
  await alertRule(page);
  await reportsOfGroup(page);
  await large(page);
  await groupingRules(page);
  await last(page, paths.capture);
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
    for (const width of [390, 900, 1024, 1440]) {
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
