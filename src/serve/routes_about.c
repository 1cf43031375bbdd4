/* The service itself: what it is, whether it takes work, what may be asked of it. */
#include "base/clock.h"
#include "serve/api.h"
#include "serve/routes.h"
#include "serve/token.h"

void about_service(struct request *r)
{
	char now[32];
	const struct context *c = r->context;
	respond_json(r, 200,
		     json_pack("{s:s,s:s,s:s,s:{s:o,s:o,s:s},s:o,s:b,s:s}", "service", "cupel",
			       "version", CUPEL_VERSION, "api", "1", "identity", "name",
			       json_text(r->who.name), "scopes", token_scopes_json(r->who.scopes),
			       "sees", visibility_names[r->viewer.sees_all], "home",
			       json_text(c->config->home), "draining",
			       service_is_draining(c->service), "now",
			       clock_write(clock_real_ns(), now, sizeof now)));
}

void about_health(struct request *r)
{
	CLEANUP_STR struct str text = { 0 };
	bool is_draining = service_is_draining(r->context->service);
	str_add(&text, is_draining ? "draining\n" : "ok\n");
	respond_bytes(r, is_draining ? 503 : 200, "text/plain; charset=utf-8", &text);
}

void about_api(struct request *r)
{
	respond_static(r, "application/json", api_document(), NULL);
}
