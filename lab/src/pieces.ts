/** Long work in pieces, between which the page hears what a person does and draws. */

/** Work that yields often; what it returns is its result. */
export type Work<Result> = Generator<void, Result>;

/** After how many rows of a table reading it yields. */
export const PIECE = 2048;
/** How long a piece takes at most, in ms: shorter than a picture. */
const PIECE_MS = 10;

/** Does the work, as long as somebody wants its result; otherwise there is none. */
export async function inPieces<Result>(work: Work<Result>, isWanted: () => boolean): Promise<Result | undefined> {
  for (;;) {
    const until = performance.now() + PIECE_MS;
    do {
      const step = work.next();
      if (step.done) return step.value;
    } while (performance.now() < until);
    await breathe();
    if (!isWanted()) return undefined;
  }
}

/** Lets messages in that have come meanwhile. */
export function breathe(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => (port1.close(), resolve());
    port2.postMessage(null);
  });
}
