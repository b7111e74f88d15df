/** A scenario in the address: its text, deflated, behind `#scenario=`. `lab/__init__.py` writes the same. */

/** What a link may hold: a few bytes in it could stand for gigabytes. */
export const MOST_TEXT_BYTES = 16_000_000;

async function through(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.length;
    if (length > MOST_TEXT_BYTES) {
      await reader.cancel();
      throw new Error("it is too long");
    }
    pieces.push(next.value as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

function piped(bytes: Uint8Array<ArrayBuffer>, by: GenericTransformStream): ReadableStream<Uint8Array> {
  return new Blob([bytes]).stream().pipeThrough(by as ReadableWritablePair<Uint8Array, Uint8Array>);
}

export async function fragmentOf(text: string, story = ""): Promise<string> {
  const bytes = await through(piped(new TextEncoder().encode(text), new CompressionStream("deflate-raw")));
  const code = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#scenario=${code.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}${story && `&story=${story}`}`;
}

/** The story whose scenario was changed into the one of a fragment, if it says one. */
export function storyOf(fragment: string): string {
  return /^#scenario=[A-Za-z0-9_-]+&story=([a-z-]+)$/.exec(fragment)?.[1] ?? "";
}

/** The text in a fragment, if there is one. */
export async function textOf(fragment: string): Promise<string | undefined> {
  const code = /^#scenario=([A-Za-z0-9_-]+)(?:&story=[a-z-]+)?$/.exec(fragment)?.[1];
  if (!code) return undefined;
  try {
    const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const text = await through(piped(bytes, new DecompressionStream("deflate-raw")));
    return new TextDecoder("utf-8", { fatal: true }).decode(text);
  } catch {
    return undefined;
  }
}
