// Starts the language server and restarts it when asked; all that is known of the language is known there.

"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const LANGUAGE = "tessera";
const DIAGNOSTIC_SCHEME = "tessera-diagnostic";

/** @type {LanguageClient | undefined} */
let client;

/** The command that runs the server: the setting, a virtual environment of a trusted workspace, or the path. */
function serverCommand() {
  const chosen = vscode.workspace.getConfiguration("tessera").get("server.command", []);
  if (chosen.length > 0) return chosen;
  const windows = process.platform === "win32";
  const inside = windows ? [".venv", "Scripts", "tessera-lsp.exe"] : [".venv", "bin", "tessera-lsp"];
  const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : [];
  const found = folders.map((folder) => path.join(folder.uri.fsPath, ...inside)).find((file) => fs.existsSync(file));
  return [found ?? "tessera-lsp"];
}

async function start() {
  const [command, ...args] = serverCommand();
  const server = { command, args, transport: TransportKind.stdio };
  // The client starts a server that died again, up to five times in three minutes.
  client = new LanguageClient(LANGUAGE, "Tessera", server, {
    documentSelector: [{ language: LANGUAGE, scheme: "file" }, { language: LANGUAGE, scheme: "untitled" }],
    connectionOptions: { maxRestartCount: 5 },
  });
  try {
    await client.start();
  } catch (error) {
    const answer = await vscode.window.showErrorMessage(
      `Tessera: the server \`${command}\` could not be started. It comes with \`pip install tessera-lang\`.`,
      "Settings",
    );
    if (answer) await vscode.commands.executeCommand("workbench.action.openSettings", "tessera.server.command");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.needsStop()) await running.stop();
}

async function restart() {
  await stop();
  await start();
}

/** The diagnostic under the cursor as the command line prints it, in a tab of its own. */
async function showDiagnostic() {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return;
  const here = vscode.languages
    .getDiagnostics(editor.document.uri)
    .find((diagnostic) => diagnostic.range.contains(editor.selection.active) && diagnostic.data?.rendered);
  if (!here) {
    vscode.window.showInformationMessage("Tessera: there is no diagnostic under the cursor.");
    return;
  }
  const query = encodeURIComponent(here.data.rendered);
  const uri = vscode.Uri.parse(`${DIAGNOSTIC_SCHEME}:${here.code?.value ?? here.code}.txt?${query}`);
  await vscode.window.showTextDocument(uri, { preview: true, viewColumn: vscode.ViewColumn.Beside });
}

/** The command beside the server: `tesserac` and `tessera` come with it. */
function besideServer(name) {
  const [server] = serverCommand();
  return path.join(path.dirname(server), path.basename(server).replace("tessera-lsp", name));
}

/** Runs what a lens stands above, in a terminal, as one would type it. */
async function inTerminal(uri, words) {
  const file = vscode.Uri.parse(uri);
  const document = vscode.workspace.textDocuments.find((open) => open.uri.toString() === file.toString());
  if (file.scheme !== "file") {
    vscode.window.showInformationMessage("Tessera: save the file first.");
    return;
  }
  await document?.save();
  const task = new vscode.Task(
    { type: LANGUAGE },
    vscode.TaskScope.Workspace,
    words.join(" "),
    "Tessera",
    new vscode.ProcessExecution(besideServer(words[0]), [...words.slice(1), file.fsPath]),
  );
  await vscode.tasks.executeTask(task);
}

const runTest = (uri, title) => inTerminal(uri, ["tesserac", "test", "-k", title]);
const runMain = (uri) => inTerminal(uri, ["tessera", "run"]);

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  const texts = { provideTextDocumentContent: (uri) => decodeURIComponent(uri.query) };
  context.subscriptions.push(
    vscode.commands.registerCommand("tessera.restart", restart),
    vscode.commands.registerCommand("tessera.showDiagnostic", showDiagnostic),
    vscode.commands.registerCommand("tessera.runTest", runTest),
    vscode.commands.registerCommand("tessera.runMain", runMain),
    vscode.workspace.registerTextDocumentContentProvider(DIAGNOSTIC_SCHEME, texts),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("tessera.server") && restart()),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
