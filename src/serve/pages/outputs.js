/* What a run left: a list, and previews of pictures, tables and text. Bytes of a run are shown as pictures and text only, never as pages. */
import { get, outputPath, request, runPath } from "./api.js";
import { button, el, empty, put, table } from "./dom.js";
import { bytes, clean, count, name, plural } from "./format.js";
import { save } from "./save.js";

const SHOWN = 100;
const OPENED = 4;              /* previews that are open from the beginning */
const OPENED_BYTES = 4 << 20;  /* pictures above it wait for a click, as do SVG files: few bytes may take a browser long */
/* As a picture an SVG file runs no scripts and loads nothing. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];

export class Outputs {
	constructor(id) {
		this.id = id;
		this.pictures = []; /* addresses to give back */
		this.node = el("div");
	}

	async load() {
		let got;
		try {
			got = await get(runPath(this.id, "outputs"));
		} catch (error) {
			put(this.node, error.status === 404 ? el("p", { class: "soft" }, "Nothing has been collected.") : empty("The outputs can't be shown.", error.message));
			return;
		}
		const files = got.outputs || [];
		if (!files.length) {
			put(this.node, el("p", { class: "soft" }, "It left nothing in out/, or nothing that it was asked for."));
			return;
		}
		const total = files.reduce((sum, file) => sum + (file.bytes || 0), 0);
		this.list = el("div", { class: "outputs" });
		put(this.node, el("p", { class: "soft" }, `${plural(files.length, "file")}, ${bytes(total)}`,
			got.partial ? el("strong", { class: "warn" }, " Partial: the run did not succeed, so these are never used again.") : null), this.list);
		this.opened = 0;
		this.show(files, 0);
	}

	show(files, from) {
		const to = Math.min(files.length, from + SHOWN);
		this.list.append(...files.slice(from, to).map((file) => this.item(file)));
		if (to < files.length)
			this.list.append(button(`Show ${count(Math.min(SHOWN, files.length - to))} more of ${count(files.length)}`, { class: "quiet" }, (pressed) => {
				pressed.remove();
				this.show(files, to);
			}));
	}

	item(file) {
		const error = el("span", { class: "warn small", role: "status" });
		const place = el("div", { class: "preview" });
		const can = file.preview && file.preview !== "none";
		const body = el("details", { class: "output" },
			el("summary", null, el("span", { class: "path" }, name(file.path, 300)), " ",
				el("span", { class: "soft small" }, `${bytes(file.bytes)} \u00b7 ${clean(file.media_type || "unknown", 60)}`)),
			el("p", { class: "small" }, file.sha256 ? el("code", { class: "soft" }, `sha256 ${clean(file.sha256, 64)}`) : null, " ",
				button("Download", { class: "quiet" }, async () => {
					put(error);
					await save(outputPath(this.id, "outputs", file.path), file.path.split("/").pop()).catch((e) => put(error, `${e.message} ${e.remedy || ""}`));
				}), error),
			can ? place : el("p", { class: "soft small" }, "There is no preview of this kind of file."));
		let isDone = false;
		body.addEventListener("toggle", () => {
			if (!body.open || isDone || !can)
				return;
			isDone = true;
			this.preview(file, place).catch((e) => put(place, el("p", { class: "warn" }, `No preview: ${e.message}`)));
		});
		if (can && this.opened < OPENED && file.media_type !== "image/svg+xml" && (file.preview !== "image" || file.bytes <= OPENED_BYTES)) {
			this.opened++;
			body.open = true;
		}
		return body;
	}

	async preview(file, place) {
		if (file.preview === "image")
			return this.picture(file, place);
		const got = await get(`${outputPath(this.id, "preview", file.path)}?rows=50`);
		if (got.kind === "table")
			put(place, table(`The beginning of ${clean(file.path, 80)}`, got.columns.map((column, i) => ({ label: clean(column, 80), cell: (row) => clean(row[i] ?? "", 200) })),
				got.rows));
		else if (got.kind === "text")
			put(place, el("pre", { tabindex: "0" }, text(got.text)));
		else if (got.kind === "image")
			return this.picture(file, place);
		if (got.truncated)
			place.append(el("p", { class: "soft small" }, "This is its beginning; download it for the rest."));
		return null;
	}

	async picture(file, place) {
		const response = await request(`${outputPath(this.id, "outputs", file.path)}?inline=1`);
		const kind = (response.headers.get("Content-Type") || "").split(";")[0].trim();
		if (!PICTURES.includes(kind)) {
			await response.body?.cancel();
			put(place, el("p", { class: "soft" }, `It is ${clean(kind, 60) || "of no known kind"}, which is not shown here.`));
			return;
		}
		const address = URL.createObjectURL(await response.blob());
		this.pictures.push(address);
		const image = el("img", { src: address, alt: `Picture ${clean(file.path, 120)}`, loading: "lazy" });
		image.addEventListener("error", () => put(place, el("p", { class: "warn" }, "It says it is a picture, but it is none.")));
		put(place, image);
	}

	close() {
		for (const address of this.pictures)
			URL.revokeObjectURL(address);
		this.pictures = [];
	}
}

function text(words) {
	return String(words).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
