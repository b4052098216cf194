// Does in a headless Chromium what tests/explorer_browser.py says, one JSON line for each command and each answer.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"] });
const pages = [];
const logs = [];

/** Run code in a page; `document` is the shadow tree that the explorer is in, if it is in one. */
const run = (page, code) =>
  pages[page].evaluate(`(() => {
    const look = (root) => {
      if (root.querySelector('.hbx')) return root;
      for (const each of root.querySelectorAll('*')) {
        const inside = each.shadowRoot && look(each.shadowRoot);
        if (inside) return inside;
      }
      return null;
    };
    return ((document) => (${code})())(look(document) ?? document);
  })()`);

/** Wait until an expression is true; asked from outside, since pages may forbid to evaluate texts. */
async function waitFor(page, code, timeout) {
  const end = Date.now() + timeout;
  while (!(await run(page, code))) {
    if (Date.now() > end) throw new Error(`still waiting for ${code}`);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}

const commands = {
  async open({ url, beside = null, width = 1440, height = 900, dark = false }) {
    const options = { viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" };
    const context = beside === null ? await browser.newContext(options) : pages[beside].context();
    const page = await context.newPage();
    const log = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && log.push(message.text()));
    page.on("pageerror", (error) => log.push(`uncaught: ${error.message}`));
    page.on("dialog", (dialog) => {
      log.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    await page.goto(url);
    pages.push(page);
    logs.push(log);
    return pages.length - 1;
  },
  log: async ({ page }) => logs[page],
  goto: async ({ page, url }) => (await pages[page].goto(url), null),
  reload: async ({ page }) => (await pages[page].reload(), null),
  evaluate: async ({ page, code }) => run(page, code),
  wait: async ({ page, code, timeout = 30000 }) => waitFor(page, code, timeout),
  click: async ({ page, selector, modifiers = [] }) => (await pages[page].locator(selector).first().click({ modifiers, timeout: 10000 }), null),
  fill: async ({ page, selector, text }) => (await pages[page].locator(selector).first().fill(text), null),
  async upload({ page, selector, text }) {
    const file = { name: "file.json", mimeType: "application/json", buffer: Buffer.from(text) };
    await pages[page].locator(selector).first().setInputFiles(file);
    return null;
  },
  press: async ({ page, key }) => (await pages[page].keyboard.press(key), null),
  async drag({ page, selector, from, to }) {
    const box = await pages[page].locator(selector).first().boundingBox();
    const y = box.y + box.height / 2;
    await pages[page].mouse.move(box.x + from * box.width, y);
    await pages[page].mouse.down();
    await pages[page].mouse.move(box.x + ((from + to) / 2) * box.width, y);
    await pages[page].mouse.move(box.x + to * box.width, y);
    await pages[page].mouse.up();
    return null;
  },
  screenshot: async ({ page, path }) => (await pages[page].screenshot({ path }), null),
  /** Milliseconds of scripting in each of some repetitions of an action, from a trace of the browser. */
  async trace({ page, actions, ready }) {
    const client = await pages[page].context().newCDPSession(pages[page]);
    const times = [];
    for (const code of actions) {
      const events = [];
      client.on("Tracing.dataCollected", ({ value }) => events.push(...value));
      const complete = new Promise((resolve) => client.once("Tracing.tracingComplete", resolve));
      await client.send("Tracing.start", { categories: "devtools.timeline,v8.execute" });
      await run(page, code);
      await waitFor(page, ready, 30000);
      await pages[page].evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      await client.send("Tracing.end");
      await complete;
      client.removeAllListeners("Tracing.dataCollected");
      const names = new Set(["FunctionCall", "RunMicrotasks", "EvaluateScript", "EventDispatch"]);
      const spans = events.filter((event) => event.ph === "X" && names.has(event.name)).map((event) => [event.tid, event.ts, event.ts + event.dur]);
      spans.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      let [thread, end, total] = [null, 0, 0];
      for (const [tid, start, stop] of spans) {
        if (tid !== thread) [thread, end] = [tid, 0];
        total += Math.max(0, stop - Math.max(start, end));
        end = Math.max(end, stop);
      }
      times.push(total / 1000);
    }
    return times;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command](options)) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
