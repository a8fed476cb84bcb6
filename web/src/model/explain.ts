// SPDX-License-Identifier: Apache-2.0
// What each kind of decision means, in plain words. Kinds: docs/protocol/control-api.md. A kind that is not here is
// shown with its own text only.

export type Tone = "good" | "bad" | "warning" | "neutral";

interface Meaning {
  tone: Tone;
  title: string;
  why: string;
}

const MEANINGS: Record<string, Meaning> = {
  sold: {
    tone: "good",
    title: "Sold",
    why: "The vGPU was made, or got another cap. From now on the device counts its cap as sold.",
  },
  refused: {
    tone: "bad",
    title: "Refused",
    why: "The vGPU was not made, or did not get its new cap: the device cannot sell that much more. A smaller cap, best effort, or another way of selling helps.",
  },
  removed: {
    tone: "neutral",
    title: "Removed",
    why: "The vGPU is gone. What it used is free for the others.",
  },
  changed: {
    tone: "neutral",
    title: "Settings changed",
    why: "Someone gave the vGPU other settings. Its programs feel it at once.",
  },
  paused: {
    tone: "warning",
    title: "Paused",
    why: "The vGPU's programs wait until somebody resumes it.",
  },
  resumed: {
    tone: "good",
    title: "Resumed",
    why: "The vGPU's programs go on.",
  },
  full: {
    tone: "warning",
    title: "No place",
    why: "A program waits outside: the vGPU has as many processes as it may have. It gets in when another one ends.",
  },
  "no-memory": {
    tone: "warning",
    title: "No memory",
    why: "A program asked for more memory than the vGPU has, and got an error. A higher limit, elastic memory or a smaller program helps.",
  },
  policy: {
    tone: "neutral",
    title: "Policy changed",
    why: "The device is shared by another rule. Running programs feel it at once.",
  },
  oversell: {
    tone: "neutral",
    title: "Selling changed",
    why: "The device is sold in another way. vGPUs that exist stay, and the account begins again.",
  },
  restored: {
    tone: "neutral",
    title: "Restored",
    why: "A new daemon has taken over the vGPUs and settings of the last one.",
  },
  sellable: {
    tone: "good",
    title: "Sellable",
    why: "More, or no more, can be sold than the device has. It follows from what the promises need now.",
  },
  overload: {
    tone: "bad",
    title: "Overloaded",
    why: "The vGPU does not keep its promise and is held below what was sold to it. It gets cap back from those that need it less.",
  },
  "at-ceiling": {
    tone: "warning",
    title: "At its ceiling",
    why: "The vGPU does not keep its promise although it has all that was sold to it. Only a larger cap, or a smaller promise, helps.",
  },
  warning: {
    tone: "warning",
    title: "Should move",
    why: "Several vGPUs are overloaded at once, so the device is too small for all. This one should move to another device.",
  },
  relieved: {
    tone: "good",
    title: "Need not move",
    why: "The device has room again. The vGPU that should have moved may stay.",
  },
  asked: {
    tone: "warning",
    title: "Asked to move",
    why: "Its programs on other machines were asked to go to another node, because this device is overloaded.",
  },
  left: {
    tone: "good",
    title: "Moved away",
    why: "No program from another machine is left on this vGPU.",
  },
  regained: {
    tone: "neutral",
    title: "Took cap back",
    why: "The vGPU wants more again, so it takes back cap that it had lent to others, up to what was sold to it.",
  },
  stolen: {
    tone: "neutral",
    title: "Was given cap",
    why: "The vGPU is overloaded, so it gets a part of the cap that the lightest vGPU does not use. That one takes it back when it needs it.",
  },
  overpromised: {
    tone: "warning",
    title: "Too much promised",
    why: "The promises need more than the device has. The vGPUs that the text names would give way, because they have the least weight.",
  },
  fits: {
    tone: "good",
    title: "Promises fit",
    why: "The device has again what all promises need.",
  },
  broken: {
    tone: "bad",
    title: "Promise broken",
    why: "The vGPU got less than was promised, because it waited for others. A device that is sold pays a penalty for this time.",
  },
  kept: {
    tone: "good",
    title: "Promise kept",
    why: "The vGPU gets what was promised again.",
  },
  memory: {
    tone: "neutral",
    title: "Memory changed",
    why: "The device's memory became elastic, or is not any more. Programs that start from now on follow it.",
  },
  "memory-others": {
    tone: "neutral",
    title: "Others' memory",
    why: "Programs that are not tenants hold another part of the device's memory, so there are more or fewer slots to share out.",
  },
  bounds: {
    tone: "neutral",
    title: "Bounds changed",
    why: "The least or the most memory of the vGPU was changed, and what it holds follows.",
  },
  pressure: {
    tone: "neutral",
    title: "Memory pressure",
    why: "The vGPUs together need more, or less, of the memory than before. While it is high, vGPUs stop to grow and give slots up.",
  },
  parts: {
    tone: "neutral",
    title: "Ran in parts",
    why: "A launch needs more memory than the vGPU may have. It ran in parts, which takes longer but gives the same result.",
  },
  "not-cut": {
    tone: "warning",
    title: "Could not be cut",
    why: "A launch needs more memory than the vGPU may have, and cannot run in parts. More memory for the vGPU helps.",
  },
  grown: {
    tone: "neutral",
    title: "Got memory",
    why: "The vGPU asked for more memory and got it.",
  },
  "not-grown": {
    tone: "warning",
    title: "Got no memory",
    why: "The vGPU asked for more memory and did not get it. The text says whether its maximum or the others are the reason.",
  },
  shrunk: {
    tone: "neutral",
    title: "Gave memory up",
    why: "The vGPU gives up memory that it does not use, or that others need more.",
  },
  "executor-ended": {
    tone: "bad",
    title: "Executor ended",
    why: "The process that runs the vGPU's OpenCL commands did not give up memory in time, so the daemon ended it. Its programs get an error.",
  },
};

export function toneOf(kind: string): Tone {
  return meaningOf(kind)?.tone ?? "neutral";
}

export function titleOf(kind: string): string {
  return meaningOf(kind)?.title ?? kind;
}

/** "" for a kind that this page does not know. */
export function whyOf(kind: string): string {
  return meaningOf(kind)?.why ?? "";
}

export function knownKinds(): string[] {
  return Object.keys(MEANINGS);
}

function meaningOf(kind: string): Meaning | undefined {
  return Object.hasOwn(MEANINGS, kind) ? MEANINGS[kind] : undefined;
}
