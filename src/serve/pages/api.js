/* Requests to the service these pages came from. No cookies: where the service asks for a token it is sent as a header, and lives as long as
 * this tab. Tells those who listen whether the service answers. */

const TOKEN = "cupel-token";
const listeners = new Set();
let asking = null; /* the one question for a token that is open */
let ask = async () => null;

export class ApiError extends Error {
	constructor(status, code, message, remedy) {
		super(message);
		this.status = status;
		this.code = code;
		this.remedy = remedy || null;
	}
}

export function token() {
	return sessionStorage.getItem(TOKEN);
}

export function forgetToken() {
	sessionStorage.removeItem(TOKEN);
}

/* `question` shows a field for a token and gives what was put in, or null. */
export function askTokenWith(question) {
	ask = question;
}

export function onLink(listener) {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

export function tellLink(isUp) {
	for (const listener of listeners)
		listener(isUp);
}

async function newToken(refused) {
	asking ||= ask(refused).finally(() => { asking = null; });
	const given = await asking;
	if (given)
		sessionStorage.setItem(TOKEN, given);
	return given;
}

async function failure(response) {
	let error = {};
	try {
		error = (await response.json()).error || {};
	} catch {
		/* not ours: a proxy's, perhaps */
	}
	const own = typeof error.message === "string" ? error.message : `The service answered ${response.status}.`;
	return new ApiError(response.status, error.code || "unknown", own, error.remedy);
}

/* A response that is good; everything else is an ApiError, with status 0 if there was no answer. */
export async function request(path, options = {}) {
	for (;;) {
		const sent = token();
		const headers = new Headers(options.headers);
		if (sent)
			headers.set("Authorization", `Bearer ${sent}`);
		let response;
		try {
			response = await fetch(path, { ...options, headers, credentials: "omit", redirect: "error", cache: options.cache || "no-store" });
		} catch (error) {
			if (error.name === "AbortError")
				throw error;
			tellLink(false);
			throw new ApiError(0, "unreachable", "The service does not answer.", "See whether `cupel serve` is running.");
		}
		tellLink(true);
		if (response.status === 401 && (token() !== sent || await newToken(Boolean(sent))))
			continue;
		if (!response.ok)
			throw await failure(response);
		return response;
	}
}

export async function get(path, options) {
	return (await request(path, { headers: { Accept: "application/json" }, ...options })).json();
}

export async function post(path, body) {
	const headers = { Accept: "application/json", "Content-Type": "application/json" };
	const response = await request(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) });
	const text = await response.text();
	return text ? JSON.parse(text) : {};
}

/* The path of a run's things; each word is made safe by itself. */
export function runPath(id, ...rest) {
	return `/v1/runs/${[id, ...rest].map(encodeURIComponent).join("/")}`;
}

/* Of an output, whose slashes are slashes. */
export function outputPath(id, kind, path) {
	return `${runPath(id, kind)}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

export function query(parameters) {
	const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
	return given.length ? `?${new URLSearchParams(given)}` : "";
}
