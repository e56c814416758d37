// The frame around all pages, and which page an address shows.
import { Failure, connect, get, link, listen, program, refreshRuns } from "./api.js";
import { ClusterPage, ClustersPage } from "./clusters.js";
import { ComparePage } from "./compare.js";
import { DesignerPage } from "./designer.js";
import { ExperimentsPage } from "./experiments.js";
import { JobPage, JobsPage } from "./jobs.js";
import { DialogHost } from "./parts.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { SweepPage } from "./sweep.js";
import { theme } from "./theme.js";

const m = window.m;

// A page, and the command that the program must have for it.
const places = [["/runs", "Runs"], ["/designer", "Designer"], ["/experiments", "Experiments", "sweep"], ["/jobs", "Jobs", "jobs"],
  ["/clusters", "Clusters", "cluster list"]];

const Top = {
  view: ({ attrs }) => m("header.top",
    m("a.skip", { href: "#content", onclick: (event) => { event.preventDefault(); document.getElementById("content").focus(); } }, "Skip to content"),
    m("a.brand", { href: "#!/runs", "aria-label": "Lockstep studio" }, m("img", { src: "/icon.svg", alt: "" }), m("span", "Lockstep")),
    m("nav", { "aria-label": "Pages" }, places.filter(([, , command]) => !command || program.commands.includes(command)).map(([path, name]) => m("a", {
      href: `#!${path}`, ...(attrs.place === path ? { "aria-current": "page", oncreate: ({ dom }) => dom.scrollIntoView({ block: "nearest", inline: "center" }) } : {}),
    }, name))),
    m("span.link-state", { class: link.state, role: "status" }, m("span.dot"), m("span", link.state === "lost" ? "Not connected" : "Live")),
    m("button.quiet", { type: "button", onclick: theme.toggle, "aria-label": theme.isDark() ? "Use light colours" : "Use dark colours" },
      theme.isDark() ? "Light" : "Dark")),
};

const Out = {
  view: () => m(".empty", m("h2", "Not signed in"), m("p", "Open the address that lockstep studio prints when it starts.")),
};

const NoPage = {
  view: ({ attrs }) => m(".card.empty", m("h1", `There is no page "${attrs.path}"`), m("p", m("a", { href: "#!/runs" }, "Show the runs"))),
};

function page(place, content, isFull) {
  return {
    render: ({ attrs }) => [
      m(Top, { place }),
      m("main#content", { tabindex: -1, class: isFull ? "full" : "" }, link.isOut ? m(Out) : m(content, { key: JSON.stringify(attrs), ...attrs })),
      m(DialogHost),
    ],
  };
}

get("/api/studio").then((answer) => { Object.assign(program, { commands: answer.commands, roots: answer.roots }); m.redraw(); }, (error) => { if (!(error instanceof Failure)) throw error; });
connect();
listen("runs", refreshRuns);
listen("reset", refreshRuns);
refreshRuns();
m.route(document.body, "/runs", {
  "/runs": page("/runs", RunsPage),
  "/run/:id": page("/runs", RunPage),
  "/compare/:ids": page("/runs", ComparePage),
  "/jobs": page("/jobs", JobsPage),
  "/job/:id": page("/jobs", JobPage),
  "/experiments": page("/experiments", ExperimentsPage),
  "/experiment/:id": page("/experiments", SweepPage),
  "/clusters": page("/clusters", ClustersPage),
  "/cluster/:name": page("/clusters", ClusterPage),
  "/designer": page("/designer", DesignerPage, true),
  "/": { onmatch: () => m.route.set("/runs", null, { replace: true }) },
  "/:path...": page("", NoPage),
});
