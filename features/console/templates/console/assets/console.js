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
  const fetched = async (path) => {
    const answer = await fetch(path, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return crashed(await answer.text());
  };
  const showCopyButtons = (root) => {
    for (const button of all("[data-copy]", root)) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button.dataset.copy));
    }
  };
  showCopyButtons(document);
  for (const button of all("[data-copy-from]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(fetched(button.dataset.copyFrom)));
  }

  // A choice in the bar shows at once.
  for (const select of all(".bar select")) select.addEventListener("change", () => select.form.requestSubmit());
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
  for (const form of all("#main:not(.alone) form[method=post]:not(.upload)")) {
    form.addEventListener("submit", async (event) => {
      // A button with an address of its own leads to another page.
      if (event.submitter?.hasAttribute("formaction")) return;
      event.preventDefault();
      const body = new URLSearchParams(new FormData(form, event.submitter));
      try {
        const answer = await fetch(form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
        const text = await answer.text();
        if (!answer.ok) {
          refuse(form, text);
        } else if (answer.redirected) {
          location.assign(answer.url);
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

  // An upload says how far it is, and files may be dropped on its form.
  for (const form of all("form.upload")) {
    const [button, bar, told] = ["button", "progress", "[role=status]"].map((s) => form.querySelector(s));
    const files = form.querySelectorAll("input[type=file]");
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
        if ([...event.dataTransfer.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory)) {
          told.textContent = "This is a folder: drop a file, of a dSYM a zip";
          return;
        }
        files[0].files = event.dataTransfer.files;
        form.requestSubmit();
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
    "/": () => document.querySelector("input[type=search]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    c: () => document.querySelector("[data-copy-from]")?.click(),
    x: () => tick()?.click(),
    e: () => press("e"),
    i: () => press("i"),
    a: () => press("a"),
    m: () => press("m"),
    "?": () => help?.showModal(),
  };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    if (typing) { event.target.blur(); return; }
    if (Date.now() - going < 1200 && pages[event.key]) {
      going = 0;
      location.assign(pages[event.key]);
    } else if (event.key === "g") {
      going = Date.now();
    } else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
})();
