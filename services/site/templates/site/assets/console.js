// Keys and copying. Every page is complete without this script.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const said = document.getElementById("said");
  const help = document.getElementById("help");
  let timer = 0;

  const say = (text) => {
    if (!said) return;
    said.textContent = text;
    clearTimeout(timer);
    timer = setTimeout(() => { said.textContent = ""; }, 2500);
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(await text);
      say("Copied");
    } catch {
      say("The browser did not let the page copy");
    }
  };

  // Apple's text of one thread: from its heading to the next empty line.
  const crashed = (log) => {
    const lines = log.split("\n");
    const from = lines.findIndex((line) => /^(Thread \d+ Crashed|Last Exception Backtrace):/.test(line));
    if (from < 0) return log;
    const to = lines.findIndex((line, at) => at > from && line === "");
    return lines.slice(from, to < 0 ? undefined : to).join("\n");
  };
  const fetched = async ({ copyFrom: path, whole }) => {
    const answer = await fetch(path, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const text = await answer.text();
    return whole === undefined ? crashed(text) : text;
  };
  const showCopyButtons = (root) => {
    for (const button of all("[data-copy]", root)) {
      button.hidden = false;
      const { copy: text, copyLink: link } = button.dataset;
      button.addEventListener("click", () => copy(link ? `${text}\n${new URL(link, location.href)}` : text));
    }
  };
  showCopyButtons(document);
  for (const button of all("[data-copy-from]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(fetched(button.dataset)));
  }

  // Times are in UTC: the local one is beside it.
  document.addEventListener("mouseover", ({ target }) => {
    const time = target.closest?.("time[datetime]:not([data-local])");
    if (!time) return;
    time.dataset.local = "";
    const local = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
    time.title = `${time.title || time.textContent} \u00b7 ${local}`;
  });

  // The values of a bar are shown under the pointer, and read by the arrow keys: a chart is a slider over its bars.
  for (const chart of all("[data-bars]")) {
    const bars = all("g", chart);
    const values = bars.map((bar) => {
      const title = bar.querySelector("title");
      title.remove();
      return title.textContent;
    });
    const tip = document.createElement("p");
    tip.className = "tip";
    tip.hidden = true;
    chart.append(tip);
    const last = bars.length - 1;
    let current = last;
    const set = (name, value) => chart.setAttribute(name, value);
    const name = (at) => {
      current = Math.min(Math.max(at, 0), last);
      set("aria-valuenow", current);
      set("aria-valuetext", values[current].replaceAll("\n", ", "));
    };
    const hide = () => {
      tip.hidden = true;
      chart.querySelector(".now")?.classList.remove("now");
    };
    const show = (at) => {
      hide();
      name(at);
      bars[current].classList.add("now");
      tip.textContent = values[current];
      tip.hidden = false;
      const middle = (current + 0.5) * chart.clientWidth / bars.length - tip.offsetWidth / 2;
      tip.style.left = `${Math.max(0, Math.min(middle, chart.clientWidth - tip.offsetWidth))}px`;
    };
    for (const [key, value] of Object.entries({ role: "slider", tabindex: 0, "aria-label": chart.dataset.bars, "aria-valuemin": 0, "aria-valuemax": last })) set(key, value);
    name(last);
    chart.addEventListener("pointermove", ({ clientX }) => {
      const { left, width } = chart.getBoundingClientRect();
      show(Math.floor((clientX - left) * bars.length / width));
    });
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("focus", () => show(current));
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: current - 1, ArrowDown: current - 1, ArrowRight: current + 1, ArrowUp: current + 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
  }

  // The current page is in sight among the tabs of a narrow window.
  document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // What is copied from a stack has a line for each call, with its whole name.
  document.addEventListener("copy", (event) => {
    const selected = getSelection();
    const within = selected.rangeCount > 0 && selected.getRangeAt(0).commonAncestorContainer;
    const element = within && (within.nodeType === Node.ELEMENT_NODE ? within : within.parentElement);
    if (!element?.closest(".stack")) return;
    const part = selected.getRangeAt(0).cloneContents();
    const calls = [...part.querySelectorAll(".call")];
    const line = (one) => one.textContent.replace(/\s+/g, " ").trim();
    event.clipboardData.setData("text/plain", calls.length > 0 ? calls.map(line).join("\n") : line(part));
    event.preventDefault();
  });

  // A choice in the bar shows at once. A version belongs to its app, so another app begins with all versions.
  const show = ({ target }) => {
    const version = target.name === "app" && target.form.elements.namedItem("version");
    if (version) version.value = "";
    target.form.requestSubmit();
  };
  for (const field of all(".bar select, .bar label > input, [data-submits]")) field.addEventListener("change", show);
  // Fields with more names than the page has ask for those that match.
  for (const field of all(".bar input[data-suggestions]")) {
    let asked = 0;
    field.addEventListener("focus", () => field.select());
    field.addEventListener("input", (event) => {
      clearTimeout(asked);
      // A name that was chosen from the list needs no further ones.
      if (event.inputType === "insertReplacementText" || field.value.trim() === "") return;
      asked = setTimeout(async () => {
        const path = `${field.dataset.suggestions}&text=${encodeURIComponent(field.value.trim())}`;
        const answer = await fetch(path, { credentials: "same-origin" }).catch(() => null);
        if (!answer?.ok || answer.redirected) return;
        const options = (await answer.json()).map((name) => new Option(name, name));
        field.list.replaceChildren(...options);
      }, 150);
    });
  }
  // An empty field is no filter: it stays out of the address.
  for (const form of all("form[method=get]")) {
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
    });
  }

  // A form that is refused keeps its fields and shows the message at its field, if the message names one.
  const refuse = (form, text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const parts = [...page.querySelectorAll("main h1, main h1 + p")].map((part) => part.textContent.trim());
    const detail = parts[1] ?? parts[0] ?? "The form was refused";
    form.querySelector(".failure")?.remove();
    for (const field of all("[aria-invalid]", form)) field.removeAttribute("aria-invalid");
    const note = document.createElement("p");
    note.className = "failure";
    note.setAttribute("role", "alert");
    note.textContent = detail;
    const name = /^([a-z_]+):/.exec(detail)?.[1];
    const field = name && form.querySelector(`[name="${name}"]:not([type=hidden]):not(button)`);
    if (!field) {
      form.append(note);
      return;
    }
    field.setAttribute("aria-invalid", "true");
    (field.closest("label") ?? field).after(note);
    field.focus();
  };
  // The answer of a session that has ended is the sign-in page: the form stays as it is.
  const SIGN_IN = "/console/sign-in";
  const isSignedOut = (address) => new URL(address, location.href).pathname === SIGN_IN;
  const askToSignIn = (form) => {
    form.querySelector(".failure")?.remove();
    const note = document.createElement("p");
    note.className = "failure";
    note.setAttribute("role", "alert");
    const link = document.createElement("a");
    link.href = `${SIGN_IN}?next=${encodeURIComponent(location.pathname + location.search)}`;
    [link.target, link.rel, link.textContent] = ["_blank", "noopener", "Sign in"];
    note.append("Your session has ended. ", link, " in another tab, then send again.");
    form.append(note);
  };
  // A form that leads back to its page leaves the page where it was.
  const leaveFor = (address) => {
    if (new URL(address, location.href).pathname === location.pathname) {
      sessionStorage.setItem("scrolled", JSON.stringify([location.pathname, scrollY]));
    }
    location.assign(address);
  };
  const [path, top] = JSON.parse(sessionStorage.getItem("scrolled") ?? "[]");
  sessionStorage.removeItem("scrolled");
  if (path === location.pathname && !location.hash) scrollTo(0, top);

  for (const form of all("#main:not(.alone) form[method=post]:not(.upload)")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const action = event.submitter?.getAttribute("formaction") ?? form.getAttribute("action");
      const body = new URLSearchParams(new FormData(form, event.submitter));
      try {
        const answer = await fetch(action, { method: "POST", body, credentials: "same-origin" });
        const text = await answer.text();
        if (answer.redirected && isSignedOut(answer.url)) {
          askToSignIn(form);
        } else if (!answer.ok) {
          refuse(form, text);
        } else if (answer.redirected) {
          leaveFor(answer.url);
        } else {
          document.open();
          document.write(text);
          document.close();
        }
      } catch {
        say("The connection broke. Try again.");
      }
    });
  }

  // What a page leaves out, such as the frames of a thread, comes from a page of its own when it is opened.
  for (const details of all("details[data-part]")) {
    details.addEventListener("toggle", async () => {
      const link = details.querySelector(".part");
      if (!details.open || !link) return;
      try {
        const answer = await fetch(details.dataset.part, { credentials: "same-origin" });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const part = [...page.querySelector("#part").children];
        part.forEach(showCopyButtons);
        link.replaceWith(...part);
      } catch {
        say("It did not come: follow the link");
      }
    });
  }

  // What is still being built is asked for again, for as long as it takes within ten minutes.
  const follow = async (until) => {
    const part = document.querySelector("[data-follow]");
    if (!part || Date.now() > until) return;
    await new Promise((done) => { setTimeout(done, 2000); });
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById(part.id);
      if (!answer.ok || !next) return;
      if (!part.contains(document.activeElement)) {
        part.replaceWith(next);
        showCopyButtons(next);
      }
    } catch {
      return;
    }
    follow(until);
  };
  follow(Date.now() + 600000);

  // The files of a folder that can have symbols, such as those of a dSYM: Mach-O files, archives and source maps.
  const FOLDER_FILES = 2000;
  const BEGINNINGS = /^(?:cffaedfe|cefaedfe|feedfacf|feedface|cafebabe|cafebabf|504b0304)$/;
  const hasSymbols = async (file) => {
    if (file.name.endsWith(".map")) return true;
    const bytes = new Uint8Array(await file.slice(0, 4).arrayBuffer());
    return BEGINNINGS.test([...bytes].map((one) => one.toString(16).padStart(2, "0")).join(""));
  };
  const filesIn = async (entries) => {
    const [files, open] = [[], [...entries]];
    while (open.length > 0) {
      const entry = open.pop();
      if (files.length + open.length > FOLDER_FILES) throw new Error(`more than ${FOLDER_FILES} files`);
      if (entry.isFile) {
        files.push(await new Promise((done, failed) => entry.file(done, failed)));
        continue;
      }
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((done, failed) => reader.readEntries(done, failed));
        if (some.length === 0) break;
        open.push(...some);
      }
    }
    return files;
  };

  // An upload says how far it is, and files may be dropped on its form.
  for (const form of all("form.upload")) {
    const [button, bar, told] = ["button", "progress", "[role=status]"].map((s) => form.querySelector(s));
    const files = form.querySelectorAll("input[type=file]:not([webkitdirectory])");
    const folder = form.querySelector("input[webkitdirectory]");
    const sendFolder = async (found) => {
      told.textContent = "Looking for symbols";
      const chosen = new DataTransfer();
      for (const file of found.slice(0, FOLDER_FILES)) if (await hasSymbols(file)) chosen.items.add(file);
      if (chosen.files.length === 0) {
        told.textContent = "The folder has no Mach-O file, archive or source map";
        return;
      }
      files[0].files = chosen.files;
      form.requestSubmit();
    };
    if (folder) {
      folder.closest("label").hidden = false;
      folder.addEventListener("change", () => sendFolder([...folder.files]));
    }
    const ended = (text) => {
      [bar.hidden, button.disabled, told.textContent] = [true, false, text];
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const request = new XMLHttpRequest();
      request.upload.addEventListener("progress", ({ loaded, total }) => {
        [bar.max, bar.value] = [total || 1, loaded];
        told.textContent = loaded < total ? `${Math.floor((100 * loaded) / total)} %` : "Sent, being stored";
      });
      request.addEventListener("load", () => {
        if (isSignedOut(request.responseURL)) {
          ended("Your session has ended. Sign in in another tab, then send again.");
          return;
        }
        if (request.status < 400) {
          location.assign(request.responseURL);
          return;
        }
        const page = new DOMParser().parseFromString(request.responseText, "text/html");
        ended([...page.querySelectorAll("main h1, main h1 + p")].map((part) => part.textContent).join(": "));
      });
      request.addEventListener("error", () => ended("The connection broke. Try again."));
      request.open("POST", form.action);
      request.send(new FormData(form));
      [bar.hidden, button.disabled] = [false, true];
    });
    // A form of several files has a place for each: what is dropped there, the browser takes.
    if (files.length > 1) continue;
    for (const name of ["dragover", "dragleave", "drop"]) {
      form.addEventListener(name, (event) => {
        event.preventDefault();
        form.classList.toggle("over", name === "dragover");
        if (name !== "drop" || button.disabled) return;
        const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
        if (!entries.some((entry) => entry.isDirectory)) {
          files[0].files = event.dataTransfer.files;
          form.requestSubmit();
        } else if (folder) {
          filesIn(entries).then(sendFolder, (error) => { told.textContent = `The folder was not read: ${error.message}`; });
        } else {
          told.textContent = "This is a folder: drop a file";
        }
      });
    }
  }

  const rows = all("tr[data-row]");
  let at = -1;
  const move = (by) => {
    if (rows.length === 0) return;
    rows[at]?.classList.remove("now");
    at = Math.min(Math.max(at + by, 0), rows.length - 1);
    rows[at].classList.add("now");
    (rows[at].querySelector("a, button:not([hidden])") ?? rows[at]).focus({ preventScroll: true });
    rows[at].scrollIntoView({ block: "nearest" });
  };

  // The keys of a form's buttons and fields. In a list they act on the groups that are ticked, or else on the current row.
  const tick = () => rows[at]?.querySelector(".tick input");
  const press = (key) => {
    const found = document.querySelector(`[data-key="${key}"]`);
    if (!found) return;
    if (found.form?.id === "bulk" && !document.querySelector(".tick input:checked")) {
      if (!tick()) {
        say("Go to a row with j and k first");
        return;
      }
      tick().checked = true;
    }
    if (found.tagName === "INPUT") found.focus();
    else found.click();
  };

  const pages = { o: "/console", g: "/console/groups", r: "/console/reports", s: "/console/symbols" };
  const keys = {
    "/": () => document.querySelector("#search input")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    c: () => document.querySelector("[data-copy-from]:not([data-whole])")?.click(),
    x: () => tick()?.click(),
    e: () => press("e"),
    i: () => press("i"),
    a: () => press("a"),
    m: () => press("m"),
    "?": () => help?.showModal(),
  };
  // Single keys can be switched off, for those who speak to their machine or press keys by accident.
  const showKeys = document.getElementById("show-keys");
  if (showKeys) {
    showKeys.hidden = false;
    showKeys.addEventListener("click", () => help?.showModal());
  }
  const single = document.getElementById("single-keys");
  if (single) {
    single.checked = localStorage.getItem("single-keys") !== "off";
    single.addEventListener("change", () => localStorage.setItem("single-keys", single.checked ? "on" : "off"));
  }
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      document.querySelector("#search input")?.select();
      return;
    }
    const typing = event.target.closest("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    if (typing) { event.target.blur(); return; }
    if (single && !single.checked) return;
    if (Date.now() - going < 1200 && pages[event.key]) {
      going = 0;
      // The link of the side bar keeps the chosen app and version.
      const link = all(".side a").find((one) => one.pathname === pages[event.key]);
      location.assign(link?.href ?? pages[event.key]);
    } else if (event.key === "g") {
      going = Date.now();
    } else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
})();
