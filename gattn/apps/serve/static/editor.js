"use strict";

// The structure editor JSME in a frame of its own, which exchanges messages with the page: it sends
// {type: "smiles", value} after each change, and reads {type: "set", value} to show a molecule.

function jsmeOnLoad() {
  const place = document.getElementById("jsme");
  const size = [`${place.clientWidth}px`, `${place.clientHeight}px`];
  const editor = new JSApplet.JSME("jsme", ...size, {options: "query,hydrogens"});
  const send = (type) => window.parent.postMessage({type, value: editor.smiles()}, origin);
  window.structureEditor = editor;
  editor.setCallBack("AfterStructureModified", () => send("smiles"));
  window.addEventListener("message", (event) => {
    if (event.source !== window.parent || event.origin !== origin || !event.data) return;
    if (event.data.type === "set") editor.readGenericMolecularInput(String(event.data.value));
  });
  window.addEventListener("resize", () =>
    editor.setSize(`${place.clientWidth}px`, `${place.clientHeight}px`));
  send("ready");
}
