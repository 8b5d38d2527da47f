// Requests to the application. Addresses are relative: the page works below a path of another program, too.
import { $ } from "./dom.js";

export async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  const data = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(data.error || answer.statusText), { status: answer.status, data });
  return data;
}

// Change something: with the token, which is asked for once and kept for this tab.
export async function change(path, body = null) {
  for (let again = false; ; again = true) {
    const token = (!again && sessionStorage.getItem("token")) || (await askToken());
    if (!token) return null;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(path, { method: "POST", headers, body: body && JSON.stringify(body) });
    const data = await answer.json();
    if (answer.ok) {
      sessionStorage.setItem("token", token);
      return data;
    }
    sessionStorage.removeItem("token");
    if (answer.status !== 401) {
      notice(`${data.error}: ${data.remedy}`);
      return null;
    }
  }
}

function askToken() {
  const dialog = $("ask");
  $("token").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? $("token").value : null), { once: true });
  });
}

$("cancel").addEventListener("click", () => $("ask").close(""));

let hiding = null;
export function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => ($("notice").hidden = true), 8000);
}
