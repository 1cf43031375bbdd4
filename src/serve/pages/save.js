/* Downloads. With a token a link is not enough, since it can't carry one: then the bytes come through this page. */
import { ApiError, request, token } from "./api.js";
import { el } from "./dom.js";
import { bytes } from "./format.js";

const MOST = 512 << 20;

function follow(address, name) {
	const a = el("a", { href: address, download: name.replace(/[/\\\u0000-\u001f]/g, "_").slice(-200) });
	document.body.append(a);
	a.click();
	a.remove();
}

export async function save(path, name) {
	if (!token())
		return follow(path, name);
	const response = await request(path);
	if (Number(response.headers.get("Content-Length")) > MOST) {
		await response.body.cancel();
		throw new ApiError(0, "too-large", `${bytes(Number(response.headers.get("Content-Length")))} are too much for this page.`,
			"Use `cupel outputs` or curl with your token.");
	}
	const address = URL.createObjectURL(await response.blob());
	follow(address, name);
	setTimeout(() => URL.revokeObjectURL(address), 60000);
}
