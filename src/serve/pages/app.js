/* What holds the pages together: which one is shown, the one stream of news, keys, and what is said when the service is away. */
import { askTokenWith, forgetToken, get, onLink, token } from "./api.js";
import { askToken, showKeys } from "./dialog.js";
import { button, el, empty, put, say } from "./dom.js";
import { clean, plural, tick } from "./format.js";
import { openQuests } from "./quests.js";
import { openRun } from "./run.js";
import { openRuns } from "./runs.js";
import { openSenate } from "./senate.js";
import { stream } from "./stream.js";

const KEYS = [["j  k", "next, previous"], ["Enter", "open"], ["/", "search"], ["Esc", "back, or clear the filters"], ["g r", "runs"], ["g q", "quests"],
	["g s", "senate"], ["f", "follow the log"], ["n  N", "next, previous place found in the log"], ["?", "this"]];
const SAY_MS = 2000;
const AGAIN_MS = 3000;
const TYPED = "input:not([type=radio], [type=checkbox]), select, textarea";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const said = document.getElementById("said");
const link = document.getElementById("link");

let page = null;
let isDown = false;
let isAfterG = false;
let heard = [];
let closeNews = null;

/* Pages tell of what they do to whoever can't see it, a little at a time. */
function announce(text) {
	heard.push(text);
	if (heard.length > 1)
		return;
	setTimeout(() => {
		say(said, heard.length > 3 ? `${plural(heard.length, "change")}. Last: ${heard[heard.length - 1]}` : heard.join(". "));
		heard = [];
	}, SAY_MS);
}

const app = { announce, go, identity: null };

function route(path) {
	const run = /^\/runs\/([^/]+)\/?$/.exec(path);
	try {
		if (run)
			return { name: "runs", open: (root) => openRun(root, app, decodeURIComponent(run[1])) };
	} catch {
		return null; /* no UTF-8 */
	}
	if (path === "/" || path === "/runs")
		return { name: "runs", open: (root, isBack) => openRuns(root, app, isBack) };
	if (path === "/quests")
		return { name: "quests", open: (root) => openQuests(root, app) };
	if (path === "/senate")
		return { name: "senate", open: (root) => openSenate(root, app) };
	return null;
}

function nowhere(root) {
	put(root, el("h1", null, "Page not found"), empty("There is no such page.", "The pages are Runs, Quests and Senate."));
	return { title: "not here", close() {} };
}

function show(isBack) {
	const to = route(location.pathname);
	page?.close();
	/* A place of its own: an answer that comes late, to a page that is gone, is drawn where nobody sees it. */
	const place = el("div");
	put(main, place);
	if (!isBack)
		window.scrollTo({ top: 0, behavior: "instant" });
	page = (to ? to.open : nowhere)(place, isBack);
	setTitle(page.title);
	for (const item of document.querySelectorAll("nav a[data-page]")) {
		if (to && item.dataset.page === to.name)
			item.setAttribute("aria-current", "page");
		else
			item.removeAttribute("aria-current");
	}
}

function setTitle(text) {
	document.title = `${clean(text, 80)} \u00b7 cupel`;
}
app.setTitle = setTitle;

function go(address) {
	if (address !== location.pathname + location.search)
		history.pushState(null, "", address);
	show(false);
	main.focus({ preventScroll: true });
}

function click(event) {
	const a = event.target.closest?.("a[href]");
	if (!a || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || a.hasAttribute("download"))
		return;
	const address = a.getAttribute("href");
	if (!address.startsWith("/") || /^\/(v1|assets)\b/.test(address))
		return;
	event.preventDefault();
	go(address);
}

function afterG(event) {
	const to = { r: "/", q: "/quests", s: "/senate" }[event.key];
	isAfterG = false;
	if (to)
		go(to);
	return Boolean(to);
}

function key(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
		return;
	if (event.target.closest(TYPED)) {
		if (event.key === "Escape")
			event.target.blur();
		return;
	}
	let done = false;
	if (isAfterG)
		done = afterG(event);
	else if (event.key === "g")
		done = isAfterG = true;
	else if (event.key === "?")
		done = Boolean(showKeys(KEYS));
	else
		done = page.key?.(event);
	if (done)
		event.preventDefault();
}

function linkChanged(isUp) {
	if (isUp !== isDown)
		return;
	isDown = !isUp;
	banner.hidden = isUp;
	if (isDown)
		showLink(false);
	put(banner, isUp ? null : [el("span", null, "The service does not answer. What you see may be old; trying again by itself. If it stays away: "),
		el("code", null, "cupel serve"), " ", button("Try now", { class: "quiet" }, () => begin().catch(() => {}))]);
	if (isUp) {
		announce("The service answers again");
		page?.reset?.();
	}
}

function news({ event, data }) {
	if (event === "open")
		showLink(true);
	else if (event === "refused")
		showLink(false);
	else if (event === "reset")
		page?.reset?.();
	else if (event === "run") {
		page?.news?.(data);
		if (data.state === "ended")
			announce(`Run ${clean(data.id, 40)} ended: ${clean(data.cause || "", 40)}`);
	}
}

function showLink(isLive) {
	link.classList.toggle("is-live", isLive);
	say(link, isLive ? "live" : "");
}

function showIdentity(about) {
	const { name, scopes, sees } = about.identity || {};
	app.identity = about.identity || null;
	put(document.getElementById("identity"), el("bdi", { title: `may: ${(scopes || []).join(", ")}; cupel ${clean(about.version, 20)}` }, clean(name, 40)),
		sees === "own" ? el("span", { title: "Pages, counts and sums cover the runs that you submitted. The scope read-all shows everybody's." }, " (own runs)") : null,
		token() ? [" ", button("Forget token", { class: "quiet" }, () => { forgetToken(); location.reload(); })] : null);
}

/* Who we are, and then the news: a first request that is refused asks for the token once, not for each part of the page. */
async function begin() {
	const about = await get("/v1");
	showIdentity(about);
	closeNews?.();
	closeNews = stream("/v1/events", news);
}

askTokenWith(askToken);
onLink(linkChanged);
document.addEventListener("click", click);
document.addEventListener("keydown", key);
document.getElementById("help").addEventListener("click", () => showKeys(KEYS));
window.addEventListener("popstate", () => show(true));
setInterval(() => { if (!document.hidden) tick(main); }, 1000);
history.scrollRestoration = "manual";

async function start() {
	try {
		await begin();
	} catch (error) {
		if (!error.status)
			setTimeout(start, AGAIN_MS);
		else
			put(main, el("h1", null, "cupel"), empty("Nothing can be shown.", `${clean(error.message, 300)} ${clean(error.remedy || "", 300)}`),
				el("p", { class: "center" }, button(error.status === 401 ? "Give a token" : "Try again", { class: "primary" }, start)));
		return;
	}
	show(false);
}
start();
