/**
 * The engine of this computer: sweeps too large for a page, which `anabranch lab` runs beside it.
 *
 * The other side is `python/anabranch/lab/server.py`. A page of `anabranch lab` has a token in its
 * address; one that was opened otherwise has none, and nothing of this.
 */

import type { ScenarioDocument } from "./document";
import { byId, h } from "./dom";
import { LabError } from "./engine";
import type { Tree } from "./messages";
import type { Pool } from "./pool";

interface Study {
  id: number;
  name: string;
  folder: string;
  state: "running" | "reporting" | "done" | "stopped" | "failed";
  done: number;
  total: number;
  note: string;
  report: string | null;
}

interface State {
  folder: string;
  cores: number;
  studies: Study[];
}

const TOKEN = "anabranch-engine";
const POLL_MS = 500;
const MOST_AXES = 3;

/**
 * Takes the token out of the address, so that nobody copies it with a link, and keeps it for this tab.
 * What follows in the address is left for the rest of the page.
 */
function takeToken(): string | undefined {
  const found = /^#engine=([A-Za-z0-9_-]+)(?:&(.*))?$/.exec(location.hash);
  try {
    if (found?.[1]) {
      history.replaceState(null, "", found[2] ? `#${found[2]}` : location.pathname);
      sessionStorage.setItem(TOKEN, found[1]);
    }
    return sessionStorage.getItem(TOKEN) ?? undefined;
  } catch {
    return found?.[1]; // where a browser keeps nothing
  }
}

/** Puts the panel on the page if there is an engine to hand over to. To be called before the address is read. */
export function handOver(pool: Pool, scenario: ScenarioDocument) {
  const token = takeToken();
  if (token) void new Panel(token, pool, scenario).start();
}

/** What a person has written as a value of a setting: a number, a flag, or text. */
function valueOf(text: string): Tree {
  if (text === "true" || text === "false") return text === "true";
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The settings of a scenario that have one value each, as dotted keys. */
function settings(tree: Tree, path: string[] = []): string[] {
  if (tree === null || Array.isArray(tree)) return [];
  if (typeof tree !== "object") return path.length > 1 ? [path.join(".")] : [];
  return Object.entries(tree).flatMap(([key, inner]) => settings(inner as Tree, [...path, key]));
}

class Panel {
  private readonly box = h("details", { id: "local" });
  private readonly what = h("p", { id: "local-what" });
  private readonly axes = h("div", { id: "local-axes" });
  private readonly known = h("datalist", { id: "local-settings" });
  private readonly replications = h("input", { type: "number", id: "local-replications", min: 1, max: 100000, value: 20, inputmode: "numeric" });
  /** On the page only once the server has answered, and shown and hidden before that. */
  private readonly count = h("label", { id: "local-count" }, "Runs of each cell ", this.replications);
  private readonly run = h("button", { type: "button", class: "main", id: "local-run" }, "Run this sweep on this computer");
  private readonly sentence = h("p", { id: "local-sentence", role: "alert", hidden: true });
  private readonly progress = h("p", { id: "local-progress", role: "status" });
  private readonly list = h("ul", { id: "local-studies" });
  private timer = 0;

  constructor(
    private readonly token: string,
    private readonly pool: Pool,
    private readonly scenario: ScenarioDocument,
  ) {
    this.run.onclick = () => void this.begin();
    scenario.listen(() => this.show());
  }

  async start() {
    let state: State;
    try {
      state = await this.ask<State>("GET", "/api/studies");
    } catch {
      return; // served by something else, or by another lab than the token's
    }
    this.box.append(
      h("summary", {}, h("h2", { id: "local-title" }, "On this computer")),
      h("p", { class: "quiet" }, "Sweeps with more runs than a page should compute run beside it, on ", state.cores === 1 ? "one core" : `all ${state.cores} cores`, ", into ", h("code", {}, state.folder), "."),
      this.what,
      this.axes,
      this.known,
      h("div", { class: "controls" }, this.count, this.run),
      this.sentence,
      this.progress,
      this.list,
    );
    byId("plots").after(this.box);
    this.addAxis();
    this.show();
    this.tell(state);
  }

  private async ask<Answer>(method: string, path: string, content?: object): Promise<Answer> {
    const headers = { Authorization: `Bearer ${this.token}`, ...(content && { "Content-Type": "application/json" }) };
    const response = await fetch(path, { method, headers, ...(content && { body: JSON.stringify(content) }) });
    const answer = (await response.json()) as Answer & { error?: string };
    if (!response.ok) throw new LabError(answer.error ?? `the lab's server has answered ${response.status}`);
    return answer;
  }

  /** What is going to be swept: the scenario's own sweep, or the axes that are written here. */
  private show() {
    const opened = this.scenario.good?.opened;
    const isOwn = this.hasSweep();
    this.what.textContent = isOwn
      ? `The scenario has a sweep: ${opened?.cells} cells, ${opened?.replications} ${opened?.replications === 1 ? "run" : "runs"} of each.`
      : "Each setting gets several values, separated by commas; every combination of them is a cell.";
    this.axes.hidden = isOwn;
    this.count.hidden = isOwn;
    this.run.disabled = !opened || this.scenario.mistake !== "";
    const paths = opened ? settings({ links: opened.scenario.links, flows: opened.scenario.flows } as unknown as Tree) : [];
    this.known.replaceChildren(...paths.map((value) => h("option", { value })));
  }

  private hasSweep(): boolean {
    return (this.scenario.good?.opened.axes.length ?? 0) > 0;
  }

  private addAxis() {
    const number = this.axes.children.length + 1;
    const path = h("input", { type: "text", list: "local-settings", class: "path", placeholder: "flows.call.transport.rto_max", autocomplete: "off", spellcheck: "false" });
    const values = h("input", { type: "text", class: "values", placeholder: "10 s, 1 s, 0.1 s", autocomplete: "off", spellcheck: "false" });
    path.oninput = () => {
      if (path.value && number === this.axes.children.length && number < MOST_AXES) this.addAxis();
    };
    this.axes.append(h("div", { class: "axis" }, h("label", {}, `Setting ${number}`, path), h("label", {}, "Values", values)));
  }

  /** The scenario with the sweep that is to be run. Throws a `LabError` if it is none. */
  private async swept(): Promise<string> {
    const { text } = this.scenario;
    if (this.hasSweep()) return text;
    const axes: { [key: string]: Tree } = {};
    for (const row of this.axes.children) {
      const [path = "", values = ""] = Array.from(row.querySelectorAll("input"), ({ value }) => value.trim());
      if (!path) continue;
      const parts = path.split(".");
      const last = parts.at(-1) ?? path;
      axes[last in axes ? parts.slice(-2).join("_") : last] = { set: path, values: values.split(",").map((value) => valueOf(value.trim())) };
    }
    if (Object.keys(axes).length === 0) throw new LabError("Choose a setting and its values first.");
    return this.pool.edit(text, ["sweep"], { replications: Number(this.replications.value), axes });
  }

  private async begin() {
    this.complain("");
    try {
      await this.ask("POST", "/api/studies", { scenario: await this.swept() });
    } catch (error) {
      this.complain(error instanceof Error ? error.message : String(error));
    }
    await this.look();
  }

  private complain(sentence: string) {
    this.sentence.textContent = sentence;
    this.sentence.hidden = !sentence;
  }

  private async look() {
    clearTimeout(this.timer);
    try {
      this.tell(await this.ask<State>("GET", "/api/studies"));
    } catch {
      this.progress.textContent = "The lab's server does not answer: it has been ended.";
    }
  }

  private tell({ studies }: State) {
    const active = studies.find(({ state }) => state === "running" || state === "reporting");
    this.run.disabled = !!active || !this.scenario.good || this.scenario.mistake !== "";
    this.progress.textContent = active
      ? active.state === "reporting" ? "Writing the report …" : `${active.done} of ${active.total} runs${active.note ? `; ${active.note}` : ""}`
      : "";
    this.list.replaceChildren(...studies.slice(0, MOST_SHOWN).map((study) => this.item(study)));
    if (active) this.timer = window.setTimeout(() => void this.look(), POLL_MS);
  }

  private item(study: Study): HTMLElement {
    const { id, name, state, done, total, note, report } = study;
    const parts: (Node | string)[] = [h("b", {}, name), ` ${WORDS[state]}`];
    if (state === "running" || state === "stopped") parts.push(...(total ? [" ", h("progress", { max: total, value: done, "aria-label": `Runs of ${name}` }), ` ${done} of ${total}`] : []));
    if (state === "failed") parts.push(`: ${note}`);
    if (report) parts.push(" ", h("a", { href: report, target: "_blank", rel: "noopener noreferrer" }, "Report"));
    if (state === "running") {
      const stop = h("button", { type: "button", class: "small" }, "Stop");
      stop.onclick = () => void this.ask("POST", `/api/studies/${id}/stop`, {}).finally(() => this.look());
      parts.push(" ", stop);
    }
    return h("li", { "data-state": state }, ...parts);
  }
}

const MOST_SHOWN = 20;

const WORDS: Record<Study["state"], string> = {
  running: "runs",
  reporting: "is being reported",
  done: "is finished",
  stopped: "was stopped",
  failed: "has failed",
};
