// SPDX-License-Identifier: Apache-2.0
// What every view gets: the node, and how to do something to it.
import type { Action } from "../model/actions";
import type { NodeModel, Topic } from "../model/node";
import type { Device, Vgpu } from "../model/types";
import { carryOut, messageOf } from "../net/api";
import { sayDone, sayFailed } from "./notices";

export interface View {
  root: HTMLElement;
  title: string;
  /** After one or several topics have changed; not more than once for each picture of the screen. */
  update(topics: ReadonlySet<Topic>): void;
  close(): void;
}

export class App {
  constructor(
    readonly node: NodeModel,
    /** Says that a topic has changed. */
    readonly tell: (topic: Topic) => void,
  ) {}

  get readOnly(): boolean {
    return this.node.hello?.read_only === true;
  }

  /** Returns "" or why it failed. Success is said with a notice, which offers to take it back. */
  async act(action: Action): Promise<string> {
    try {
      this.take(action, await carryOut(action));
      if (action.then) this.take(action.then, await carryOut(action.then));
    } catch (error) {
      return messageOf(error);
    }
    sayDone(action, (undo) => void this.actAndSay(undo));
    return "";
  }

  async actAndSay(action: Action): Promise<void> {
    const failed = await this.act(action);
    if (failed) sayFailed(action.command, failed);
  }

  /** The reply is newer than the lists. */
  private take(action: Action, reply: unknown): void {
    if (typeof reply !== "object" || reply === null) return;
    if ("settings" in reply && "id" in reply) this.node.setVgpu(reply as Vgpu);
    else if ("policy" in reply && "oversell" in reply) this.node.setDevice(reply as Device);
    else if (action.method === "DELETE") this.node.dropVgpu((reply as { removed?: string }).removed ?? "");
    else return;
    this.tell("lists");
  }
}
