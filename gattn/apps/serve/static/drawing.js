// The structure editor OpenChemLib, which is loaded when it is opened for the first time.

import {byId} from "./dom.js";

let editor = null, Molecule = null;

/** Open the editor; call a function with the SMILES after each change of the drawing. */
export async function openEditor(changed) {
  if (editor) return;
  const library = await import("./openchemlib/openchemlib.js");
  Molecule = library.Molecule;
  editor = new library.CanvasEditor(byId("editor-place"));
  draw(byId("smiles").value);
  editor.setOnChangeListener((event) => {
    if (event.isUserEvent) changed(editor.getMolecule().toIsomericSmiles());
  });
}

/** Show a molecule in the editor if it is open and can read the SMILES. */
export function draw(smiles) {
  if (!editor || !smiles.trim()) return;
  try {
    editor.setMolecule(Molecule.fromSmiles(smiles.trim()));
  } catch {
    editor.clearAll();  // The server explains the fault.
  }
}
