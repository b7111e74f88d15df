/** The page: what is on it, put together. */

import { type Chart, chartsOf } from "./charts";
import { Compare } from "./compare";
import { costOfRun, workOf } from "./cost";
import { mistakesOf, ScenarioDocument } from "./document";
import { byId, h, save } from "./dom";
import { LabError } from "./engine";
import { handOver } from "./engine_local";
import { Form } from "./form";
import { fragmentOf, MOST_TEXT_BYTES, storyOf, textOf } from "./link";
import type { Scenario, Tree } from "./messages";
import { packetStory } from "./packet";
import { inPieces, type Work } from "./pieces";
import { Player } from "./player";
import { Plots } from "./plots";
import { Pool, Stopped, type Traced } from "./pool";
import { shown } from "./quantities";
import { colourOf } from "./looks";
import { type Selection, Stage } from "./stage";
import { STORIES, type Story } from "./stories";
import { Sweep } from "./sweep";
import { TABLES, Trace } from "./trace";

const ALERT = byId("alert");
const TABS = ["story", "compare", "settings", "text"] as const;

/** Says what is wrong, with a way to it where there is one. */
function alert(sentence: string, ...way: HTMLElement[]) {
  ALERT.replaceChildren(sentence, ...way.flatMap((one) => [" ", one]));
  ALERT.hidden = !sentence;
}

function openTab(name: (typeof TABS)[number], isFocused = false) {
  // Whoever has come by keys does not lose the way with the panel that is closed.
  const active = document.activeElement;
  isFocused ||= !!active?.matches(":focus-visible") && !!active.closest("[role=tabpanel], #stage, #legend");
  for (const tab of TABS) {
    const button = byId(`tab-${tab}`);
    button.setAttribute("aria-selected", String(tab === name));
    button.tabIndex = tab === name ? 0 : -1;
    byId(`panel-${tab}`).hidden = tab !== name;
  }
  if (isFocused) byId(`tab-${name}`).focus();
}

function watchTabs() {
  TABS.forEach((tab, index) => {
    const button = byId(`tab-${tab}`);
    button.onclick = () => openTab(tab);
    button.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) openTab(TABS[(index + step + TABS.length) % TABS.length] ?? "story", true);
    };
  });
}

class Page {
  private readonly scenario: ScenarioDocument;
  private readonly stage: Stage;
  private readonly player: Player;
  private readonly form: Form;
  private readonly compare: Compare;
  private readonly sweep: Sweep;
  private readonly toml = byId<HTMLTextAreaElement>("toml");
  private readonly stop = byId<HTMLButtonElement>("stop-run");
  private readonly status = byId("run-status");
  private readonly replication = byId<HTMLInputElement>("replication");
  private trace: Trace | undefined;
  /** Whether somebody has stopped the run that is computed or read. */
  private isStopped = false;
  private turn = 0;
  private typing = 0;
  private remembering = 0;
  /** The story that is told, if one is. */
  private story: Story | undefined;
  /** What is done once the next run has been traced. */
  private then: () => void = () => {};

  constructor(
    private readonly pool: Pool,
    schema: { [key: string]: Tree },
  ) {
    this.scenario = new ScenarioDocument(pool);
    this.stage = new Stage(
      byId("stage"),
      (selection) => this.change(selection),
      (packet) => this.tell(packet),
    );
    this.player = new Player(this.stage, new Plots(byId("plots"), (time) => this.player.seek(time)), (packet) =>
      this.tell(packet),
    );
    this.compare = new Compare(pool, this.scenario);
    this.sweep = new Sweep(pool, this.scenario, this.compare);
    this.form = new Form(
      byId("panel-settings"),
      schema,
      this.scenario,
      (path, range) => {
        this.compare.add(path, range);
        openTab("compare");
        this.compare.ask();
      },
      (path) => this.compare.canPin(path),
    );
    this.scenario.listen((change) =>
      ({ opened: () => this.opened(), mistaken: () => this.mistaken(), waiting: () => this.waiting() })[change](),
    );
    this.listen();
    handOver(pool, this.scenario);
  }

  async start() {
    const chooser = byId<HTMLSelectElement>("story");
    chooser.append(
      ...STORIES.map(({ id, title }) => h("option", { value: id }, title)),
      h("option", { value: "", hidden: true }, "your own scenario"),
    );
    chooser.onchange = () => {
      const story = STORIES.find(({ id }) => id === chooser.value);
      if (story) void this.tellStory(story);
    };
    window.addEventListener("hashchange", () => void this.read());
    await this.read();
  }

  /** What the address says. */
  private async read() {
    const { hash } = location;
    const text = await textOf(hash);
    const changed = STORIES.find(({ id }) => id === storyOf(hash));
    if (text !== undefined) return changed ? this.tellStory(changed, text) : this.take(text);
    const isBroken = location.hash.startsWith("#scenario=");
    const story = STORIES.find(({ id }) => location.hash === `#${id}`) ?? STORIES[0];
    if (story) await this.tellStory(story);
    if (isBroken) alert("The link holds no scenario: it was cut, or is not of this page.");
    else if (hash.length > 1 && hash !== `#${story?.id}`) alert("The lab has no story of the name that the address has; this is the first one.");
  }

  /** A scenario of the person's own. */
  private async take(text: string) {
    this.story = undefined;
    byId<HTMLSelectElement>("story").value = "";
    byId("panel-story").replaceChildren(
      h("h2", {}, "Your own scenario"),
      h(
        "p",
        {},
        "Click a link of the network to change it, or open “Settings”. Choose “Slider” beside a number to move it and see what 50 runs become. “Link” copies an address that holds the whole scenario.",
      ),
      h("p", {}, "The stories above show what there is to see."),
    );
    this.compare.clear();
    await this.scenario.replace(text, true);
    this.compare.start([]);
    this.sweep.clear();
    openTab(this.scenario.mistake ? "text" : "settings");
  }

  /** A story, with its own scenario or one that somebody has made of it. */
  private async tellStory(story: Story, text = story.scenario) {
    this.story = story;
    byId<HTMLSelectElement>("story").value = story.id;
    const steps = story.steps.map(({ text, label, sets, at, speed, compares }) => {
      const item = h("li", {}, text, " ");
      if (label) {
        const button = h("button", { type: "button", class: "small" }, label);
        button.onclick = async () => {
          if (at !== undefined || speed !== undefined)
            this.then = () => {
              if (speed !== undefined) this.player.setSpeed(speed);
              if (at !== undefined) this.player.seek(at);
              this.player.play();
            };
          if (sets) await this.scenario.setAll(sets.map(([path, value]) => [path.split("."), value]));
          // While a run is computed, it is the one to be played.
          else if (this.stop.hidden) this.arrived();
          if (compares) {
            openTab("compare");
            this.compare.ask();
          }
        };
        item.append(button);
      }
      return item;
    });
    byId("panel-story").replaceChildren(
      h("h2", {}, story.title),
      ...story.text.map((text) => h("p", {}, text)),
      h("ol", {}, ...steps),
      h("button", { type: "button", class: "small", onclick: () => void this.tellStory(story) }, "Start the story over"),
    );
    byId("panel-story").scrollTop = 0;
    openTab("story");
    this.player.setSpeed(story.speed);
    this.then = () => this.player.seek(story.at);
    this.compare.clear();
    await this.scenario.replace(text, true);
    this.form.select({ kind: "run", name: "" });
    this.compare.start(story.knobs, story.metric, story.replications);
    this.sweep.clear();
  }

  private opened() {
    const { good, text } = this.scenario;
    if (!good) return;
    alert("");
    if (document.activeElement !== this.toml || this.toml.value !== text) this.toml.value = text;
    byId("about").textContent = good.opened.scenario.description;
    byId("stage-title").textContent = good.opened.name || "One run";
    this.stage.show(good.opened);
    this.form.show();
    this.compare.refresh();
    this.showTools();
    this.remember();
    void this.run();
  }

  private mistaken() {
    if (this.toml.value !== this.scenario.text) this.toml.value = this.scenario.text;
    const line = mistakesOf(this.scenario.mistake).find((mistake) => mistake.line)?.line ?? 0;
    const go = h("button", { type: "button", class: "small", onclick: () => this.goTo(line) }, `Line ${line} of the TOML`);
    const told = this.scenario.mistake;
    const still = this.scenario.good ? "What is shown is the last scenario without a mistake." : "";
    alert(told.includes("\n") ? `${told}\n${still}` : told.replace(/\.?$/, `. ${still}`), ...(line ? [go] : []));
    if (this.status.textContent === READING) {
      this.status.textContent = "";
      this.stop.hidden = true;
    }
    this.form.complain();
    this.showTools();
    this.remember();
  }

  /** The address holds what is seen, so that it is still there when the page is loaded again. */
  private remember() {
    clearTimeout(this.remembering);
    const latest = (this.remembering = window.setTimeout(async () => {
      if (this.scenario.text.length > MOST_REMEMBERED) return;
      const fragment = await this.fragment();
      if (latest === this.remembering) history.replaceState(null, "", fragment);
    }, 100));
  }

  /** What a link to this has behind `#`: the story alone where nothing of it has been changed. */
  private async fragment(): Promise<string> {
    const { story, scenario } = this;
    return story?.scenario === scenario.text ? `#${story.id}` : fragmentOf(scenario.text, story?.id);
  }

  /** A line of the text, marked. */
  private goTo(line: number) {
    openTab("text");
    const before = this.toml.value.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, one) => sum + one.length + 1, 0);
    const end = this.toml.value.indexOf("\n", start);
    this.toml.focus();
    this.toml.setSelectionRange(start, end < 0 ? this.toml.value.length : end);
    this.toml.scrollTop = Math.max(0, line - 5) * parseFloat(getComputedStyle(this.toml).lineHeight);
  }

  /** The settings of a part that somebody has chosen. */
  private change(selection: Selection) {
    this.form.select(selection);
    openTab("settings");
  }

  private waiting() {
    this.status.textContent = READING;
    this.stop.hidden = false;
  }

  private showTools() {
    byId<HTMLButtonElement>("undo").disabled = !this.scenario.canUndo;
    byId<HTMLButtonElement>("redo").disabled = !this.scenario.canRedo;
  }

  private async run(isWanted = false) {
    const { good } = this.scenario;
    if (!good) return;
    const turn = ++this.turn;
    const warning = isWanted ? "" : costOfRun(good.opened.scenario, this.pool.pace);
    if (warning) {
      this.pool.stopTrace();
      this.stop.hidden = true;
      this.player.load(undefined, []);
      const go = h("button", { type: "button", class: "small" }, "Run it all the same");
      go.onclick = () => void this.run(true);
      this.status.replaceChildren(`${warning}. `, go);
      return;
    }
    this.stop.hidden = false;
    this.isStopped = false;
    this.status.textContent = "Running …";
    try {
      const traced = await this.pool.trace(
        good.text,
        Math.max(0, Math.floor(Number(this.replication.value) || 0)),
        TABLES,
      );
      if (turn !== this.turn) return;
      this.pool.learn(workOf(good.opened.scenario), traced.took);
      this.status.textContent = "Reading the run …";
      const read = await inPieces(reading(good.opened.scenario, traced), () => turn === this.turn && !this.isStopped);
      if (!read) throw new Stopped();
      this.trace = read.trace;
      this.status.textContent = `${this.trace.packets.length} packets in ${shown(this.trace.end)} s`;
      this.status.title = `Computed in ${shown(Math.max(1, Math.round(traced.took)))} ms`;
      this.showLegend(this.trace);
      this.player.load(this.trace, read.charts);
      byId("packet").hidden = true;
      this.arrived();
    } catch (error) {
      if (turn !== this.turn) return;
      if (error instanceof Stopped) this.status.textContent = "Stopped.";
      else if (error instanceof LabError) this.status.textContent = error.message;
      else throw error;
    } finally {
      if (turn === this.turn) this.stop.hidden = true;
    }
  }

  private arrived() {
    const then = this.then;
    this.then = () => {};
    then();
  }

  private showLegend(trace: Trace) {
    const keys = Object.entries(trace.scenario.flows).flatMap(([flow, { paths }]) =>
      paths.map((path, number) => {
        const isOne = paths.length === 1;
        const what = isOne ? `flow ${flow}` : `path ${path}`;
        const key = h(
          "button",
          { type: "button", class: "key", title: `Change ${what}` },
          isOne ? flow : `${flow} on ${path}`,
        );
        key.onclick = () => this.change(isOne ? { kind: "flow", name: flow } : { kind: "path", name: path });
        key.style.setProperty("--key", colourOf(trace.colour(flow, number)));
        return key;
      }),
    );
    byId("legend").replaceChildren(...keys.slice(0, 8));
  }

  /** The story of a packet. */
  private tell(number: number) {
    const { trace } = this;
    if (!trace?.packets[number]) return;
    this.player.pause();
    this.stage.marked = number;
    const box = byId("packet");
    const close = () => {
      box.hidden = true;
      this.stage.marked = undefined;
      this.player.seek(this.player.now);
    };
    this.player.onEscape = close;
    box.replaceChildren(...packetStory(trace, number, this.pool.headers(number), (other) => this.follow(other), close));
    box.hidden = false;
    this.player.seek(this.player.now);
  }

  /** Another packet, where it sets out. */
  private follow(number: number) {
    const packet = this.trace?.packets[number];
    if (packet) this.player.seek(this.trace?.story(number)[0]?.begun ?? packet.sent);
    this.tell(number);
  }

  private listen() {
    this.toml.oninput = () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(() => void this.scenario.replace(this.toml.value), 300);
    };
    byId("undo").onclick = () => void this.scenario.undo();
    byId("redo").onclick = () => void this.scenario.redo();
    byId("save").onclick = () => save(`${this.scenario.good?.opened.name || "scenario"}.toml`, this.scenario.text);
    const file = byId<HTMLInputElement>("file");
    byId("open").onclick = () => file.click();
    file.onchange = async () => {
      const [chosen] = file.files ?? [];
      if (!chosen) return;
      file.value = "";
      if (chosen.size > MOST_TEXT_BYTES)
        return alert(`${chosen.name} has ${shown(chosen.size)} bytes; a scenario has at most ${MOST_TEXT_BYTES}.`);
      await this.take(await chosen.text());
    };
    byId("share").onclick = async () => {
      history.replaceState(null, "", await this.fragment());
      try {
        await navigator.clipboard.writeText(location.href);
        this.status.textContent = "The link is copied.";
      } catch {
        this.status.textContent = "The link stands in the address bar.";
      }
    };
    byId("ask").onclick = () => this.compare.ask();
    this.stop.onclick = () => {
      this.pool.stopReading();
      this.pool.stopTrace();
      this.isStopped = true;
      this.stop.hidden = true;
    };
    this.replication.onchange = () => void this.run();
  }
}

/** A run, and what can be drawn over its time. */
function* reading(scenario: Scenario, traced: Traced): Work<{ trace: Trace; charts: Chart[] }> {
  const trace = yield* Trace.read(scenario, traced);
  return { trace, charts: yield* chartsOf(trace) };
}

const READING = "Reading the scenario …";
/** Characters of a scenario that an address holds without being asked. */
const MOST_REMEMBERED = 100_000;

async function main() {
  watchTabs();
  const response = await fetch("engine.wasm");
  if (!response.ok) throw new Error(`engine.wasm: ${response.status}`);
  const module = await WebAssembly.compile(await response.arrayBuffer());
  const pool = new Pool(module);
  const schema = (await pool.schema()) as { [key: string]: Tree };
  byId("version").textContent = `Anabranch ${await pool.version()}`;
  await new Page(pool, schema).start();
  document.body.dataset["ready"] = "true";
}

main().catch((error: unknown) => {
  alert(`The lab cannot start: ${error instanceof Error ? error.message : String(error)}`);
  throw error;
});
