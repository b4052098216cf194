// The explorer: render({model, el}) draws it, for notebooks (anywidget) and for pages.

import { answerFromLookups, answerFromTables } from "./answers_in_page.js";
import { makeComparison } from "./comparison.js";
import { askServer, connect, makeModel } from "./connection.js";
import { h, set, write } from "./dom.js";
import { fromLink } from "./findings.js";
import { percent, valueText } from "./format.js";
import { NetworkMap } from "./map.js";
import { Panel } from "./panel.js";
import { Scene } from "./scene.js";
import { Store } from "./store.js";
import { CSS } from "./style.js";
import { Notice, Toolbar } from "./toolbar.js";

const NARROW = 640;
const THEMES = ["auto", "light", "dark"];

/** Add the styles to the page, or to the shadow tree that the element is in. */
function addStyles(element) {
  const root = element.getRootNode();
  if (!element.isConnected) {
    requestAnimationFrame(() => addStyles(element));
    return;
  }
  if (root.hybridbnStyles) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  root.hybridbnStyles = true;
}

/** Whether the surroundings are dark: a notebook says so itself, other pages follow the system. */
function isDark() {
  const { body, documentElement } = document;
  if (body.dataset.jpThemeLight !== undefined) return body.dataset.jpThemeLight === "false";
  if (body.dataset.vscodeThemeKind !== undefined) return !body.dataset.vscodeThemeKind.includes("light");
  for (const element of [body, documentElement]) {
    if (element.classList.contains("dark") || element.dataset.theme === "dark") return true;
    if (element.classList.contains("light") || element.dataset.theme === "light") return false;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function announce(store) {
  const { selected, nodes } = store;
  const node = nodes[selected];
  const belief = store.belief(selected);
  if (store.error) return store.error.text;
  const count = `${store.findings.length} finding${store.findings.length === 1 ? "" : "s"}`;
  if (!belief) return count;
  if (!belief.p) return `${count}; ${node.name}: mean ${valueText(node, belief.mean)}`;
  const best = belief.p.indexOf(Math.max(...belief.p));
  return `${count}; ${node.name}: ${node.states[best]} ${percent(belief.p[best])}`;
}

export function render({ model, el }) {
  const content = model.get("document");
  const { ask, disconnect } = connect(model);
  const store = new Store(content, ask, model);
  const scene = new Scene(store);
  const toolbar = new Toolbar(store, scene);
  const panel = new Panel(store);
  const notice = new Notice(store);
  const map = content.boxes && content.nodes.length < 9 ? null : new NetworkMap(store);
  const live = h("div", { class: "hbx-hidden", "aria-live": "polite" });
  const waiting = h("span", {});
  const status = h("div", { class: "hbx-status" }, h("span", {}, content.about ?? ""), waiting);
  const stage = h("div", { class: "hbx-stage" }, map?.element, scene.element);
  const main = h("div", { class: "hbx-main" }, stage, panel.element);
  const root = h("div", { class: "hbx", tabindex: "-1" }, toolbar.element, toolbar.chips, notice.element, main, status, live);

  // light and dark
  let theme = "auto";
  const paint = () => set(root, { "data-theme": theme === "auto" ? (isDark() ? "dark" : "light") : theme });
  toolbar.onTheme = () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    if (theme === (isDark() ? "dark" : "light")) theme = isDark() ? "light" : "dark";
    paint();
  };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", paint);
  const observer = new MutationObserver(paint);
  observer.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-vscode-theme-kind", "data-theme"] });
  paint();

  let spoken = -1;
  let compared = null;
  const draw = () => {
    toolbar.update();
    notice.update();
    panel.update();
    if (store.compared !== compared) {
      compared = store.compared;
      stage.querySelector(".hbx-comparison")?.remove();
      if (compared) stage.append(makeComparison(store));
    }
    set(scene.element, { hidden: compared !== null });
    if (map) set(map.element, { hidden: compared !== null || (content.boxes && store.view !== "list") });
    if (!compared) scene.update().then(() => map?.update(scene.views));
    write(waiting, store.pending ? "computing …" : "");
    set(status, { hidden: !content.about && !store.pending });
    set(root, { class: `hbx${store.intervening ? " hbx-intervening" : ""}`, "data-version": store.version, "data-pending": store.pending || null });
    if (spoken !== store.version) {
      spoken = store.version;
      write(live, announce(store));
    }
  };
  scene.onType = () => panel.valueField?.focus();
  store.subscribe(draw);

  let chosen = false;
  const resized = new ResizeObserver(([entry]) => {
    const view = entry.contentRect.width < NARROW ? "list" : "graph";
    if (!chosen || !store.view) store.view = view;
    store.notify();
  });
  for (const button of [toolbar.graph, toolbar.list]) {
    button.addEventListener("click", () => {
      chosen = true;
    });
  }
  root.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "z" && !isTyping) {
      event.preventDefault();
      if (event.shiftKey) store.redo();
      else store.undo();
    } else if (event.key === "Escape" && store.compared) store.update({ compared: null });
    else if (event.key === "/" && !isTyping && toolbar.search.isConnected) {
      event.preventDefault();
      toolbar.search.focus();
    }
  });
  const receive = () => {
    const findings = model.get("findings");
    if (Array.isArray(findings) && JSON.stringify(findings) !== JSON.stringify(store.findings)) store.change(findings);
  };
  model.on("change:findings", receive);
  if (store.offers.link) {
    const follow = () => {
      const linked = fromLink(location.hash, store.nodes);
      if (!linked) return;
      store.change(linked.findings);
      store.tellLost(linked.lost);
    };
    window.addEventListener("hashchange", follow);
    follow();
  }
  set(el, { class: `${el.className} hbx-host`.trim() });
  el.replaceChildren(root);
  addStyles(root);
  resized.observe(root);
  return () => {
    disconnect();
    resized.disconnect();
    observer.disconnect();
    scheme.removeEventListener("change", paint);
  };
}

export default { render };

/** Draw the explorer of a page: from the document that it holds, or from that of its server. */
async function openPage(el) {
  const held = document.getElementById("hybridbn-document");
  if (held) {
    const content = JSON.parse(held.textContent);
    const answer = content.tables ? answerFromTables(content) : answerFromLookups(content);
    render({ model: makeModel({ document: content }, answer), el });
    return;
  }
  try {
    const response = await fetch("document");
    render({ model: makeModel({ document: await response.json() }, askServer), el });
  } catch {
    el.replaceChildren(h("p", {}, "hybridbn explore does not answer; start it again."));
  }
}

const page = document.getElementById("hybridbn-explorer");
if (page) openPage(page);
