// Runs inside a seat's program: hands waiting messages over and tells what happens, one thing after the other.
// `team.json` beside it says whose seat it is. Standard output belongs to the program's protocol: never print.
import { joinSession } from "@github/copilot-sdk/extension";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import process from "node:process";

const seat = JSON.parse(fs.readFileSync(new URL("./team.json", import.meta.url), "utf8"));
// Another session of the same program, started below the seat or after a /clear, is none of ours.
if (process.env.SESSION_ID !== seat.session) process.exit(0);

const session = await joinSession({});

// What is told goes out in order; a call that fails is told by nothing else, and the log shows the gap.
let telling = Promise.resolve();
function tell(event, data) {
  const call = () =>
    new Promise((done) => {
      const hook = spawn(seat.exe, ["hook", "--seat-file", seat.file, event], {
        stdio: ["pipe", "ignore", "ignore"],
      });
      hook.on("error", done);
      hook.on("close", done);
      hook.stdin.on("error", () => {});
      hook.stdin.end(JSON.stringify({ ...data, sessionId: seat.session }));
    });
  telling = telling.then(call, call);
}

// Handed over, not yet begun: by the program's own id.
const waiting = new Map();
let open = false;

async function hand(text) {
  const id = await session.send({ prompt: text, mode: "enqueue" });
  waiting.set(id, text);
  return id;
}

const MESSAGE = /^\d{12}-.*\.txt$/;
let draining = false;
let again = false;
async function drain() {
  if (draining) {
    again = true;
    return;
  }
  draining = true;
  do {
    again = false;
    const names = fs.readdirSync(seat.inbox).filter((name) => MESSAGE.test(name)).sort();
    for (const name of names) {
      const taken = path.join(seat.inbox, "taken", name);
      try {
        // Whoever moves it has it: it may just have been taken back.
        fs.renameSync(path.join(seat.inbox, name), taken);
      } catch {
        continue;
      }
      const text = fs.readFileSync(taken, "utf8");
      try {
        const id = await hand(text);
        tell("enqueued", { prompt: text, messageId: id });
      } catch {
        // Nobody knows what became of it; that is what the log will say.
      }
    }
  } while (again);
  draining = false;
}

// An interrupt empties the program's queue without a word.
const LOST_MS = 1500;
function handAgain(lost) {
  setTimeout(async () => {
    for (const id of lost) {
      const text = waiting.get(id);
      if (text === undefined) continue;
      waiting.delete(id);
      await hand(text).catch(() => {});
    }
  }, LOST_MS);
}

let lost = [];
session.on((event) => {
  const data = event.data ?? {};
  // Subagents have turns of their own.
  if (event.agentId !== undefined && event.agentId !== null) return;
  switch (event.type) {
    case "user.message":
      waiting.delete(data.messageId);
      if (data.delivery !== "steering") open = true;
      tell(event.type, { content: data.content, messageId: data.messageId, delivery: data.delivery });
      break;
    case "abort":
      open = false;
      lost = [...waiting.keys()];
      tell(event.type, { reason: data.reason });
      break;
    case "session.error":
      open = false;
      tell(event.type, { errorType: data.errorType, message: data.message, statusCode: data.statusCode });
      break;
    case "session.idle":
      if (open) tell(event.type, {});
      open = false;
      if (lost.length > 0) handAgain(lost);
      lost = [];
      break;
    case "permission.completed":
      tell(event.type, {});
      break;
    case "session.compaction_start":
      tell(event.type, {});
      break;
    case "session.compaction_complete":
      tell(event.type, { open });
      break;
  }
});

fs.watch(seat.inbox, drain);
tell("SessionStart", { source: "startup" });
await drain();
