// Questions and answers over the messages of a model, and the models of pages that have no kernel.

/** A function that sends a question and promises its answer. */
export function connect(model) {
  const waiting = new Map();
  const session = Math.random().toString(36).slice(2, 10);
  let last = 0;
  const receive = (message) => {
    const settle = waiting.get(message?.id);
    if (settle) {
      waiting.delete(message.id);
      settle(message);
    }
  };
  model.on("msg:custom", receive);
  const ask = (question) =>
    new Promise((resolve) => {
      const id = `${session}-${(last += 1)}`;
      waiting.set(id, resolve);
      model.send({ ...question, id });
    });
  return { ask, disconnect: () => model.off("msg:custom", receive) };
}

/** A model as anywidget has it, for a page in which `answer` answers: a promise of an answer to a question. */
export function makeModel(values, answer) {
  const listeners = new Map();
  const emit = (event, ...data) => [...(listeners.get(event) ?? [])].forEach((listener) => listener(...data));
  return {
    get: (name) => values[name],
    set: (name, value) => {
      values[name] = value;
    },
    save_changes: () => {},
    on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
    off: (event, listener) => {
      listeners.set(event, (listeners.get(event) ?? []).filter((other) => other !== listener));
    },
    send: (question) => {
      Promise.resolve()
        .then(() => answer(question))
        .then(
          (reply) => emit("msg:custom", { ...reply, id: question.id }),
          (error) => emit("msg:custom", { id: question.id, error: error.message, lost: error.lost === true }),
        );
    },
  };
}

/** Ask the server that this page comes from. */
export async function askServer(question) {
  let response;
  try {
    response = await fetch("ask", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
    });
  } catch {
    throw Object.assign(new Error("hybridbn explore does not answer any more; start it again"), { lost: true });
  }
  if (!response.ok) throw Object.assign(new Error(`the server refused the question (${response.status})`), { lost: true });
  return response.json();
}
