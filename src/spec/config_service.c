/* service: where the service listens, and how it shares the host. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "spec/config_layer.h"
#include "spec/show.h"

#define SHARES_MAX 1000

READER(read_socket)
{
	struct config_layer *layer = target;
	int r = config_path_value(d, n, NULL, &layer->config->service.socket, err);
	if (r >= 0 && strlen(layer->config->service.socket) > SERVICE_SOCKET_MAX)
		return node_error(d, n, err,
				  "the path of a socket has at most %d bytes; shorten it",
				  SERVICE_SOCKET_MAX);
	config_say(layer, d, n, "service.socket");
	return r;
}

READER(read_group)
{
	struct config_layer *layer = target;
	int r = config_name_check(d, n, "name of a group", err);
	return r < 0 ? r
		     : config_string(layer, d, n, "service.group", &layer->config->service.group);
}

/* ADDRESS:PORT, with an IPv6 address in brackets. Names are not resolved: what they mean can change. */
READER(read_listen)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	uint64_t port = 0;
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	const char *colon = strrchr(text, ':');
	if (!colon || colon == text || num_u64(colon + 1, 65535, &port) < 0)
		return node_error(
			d, n, err,
			"'%s' is no address to listen on; write ADDRESS:PORT, such as 127.0.0.1:8470 or [::1]:8470",
			show_text(text, shown));
	return config_string(layer, d, n, "service.listen", &layer->config->service.listen);
}

static int read_number(const struct document *d, const struct node *n, struct config_layer *layer,
		       const char *key, uint64_t *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	if (num_u64(text, 1000000, ret) < 0)
		return node_error(d, n, err, "'%s' is no count; write a number up to 1000000",
				  show_text(text, shown));
	config_say(layer, d, n, key);
	return 0;
}

READER(read_max_running)
{
	struct config_layer *layer = target;
	return read_number(d, n, layer, "service.max_running", &layer->config->service.max_running,
			   err);
}

READER(read_max_queued)
{
	struct config_layer *layer = target;
	return read_number(d, n, layer, "service.max_queued_per_submitter",
			   &layer->config->service.max_queued_per_submitter, err);
}

READER(read_max_running_each)
{
	struct config_layer *layer = target;
	return read_number(d, n, layer, "service.max_running_per_submitter",
			   &layer->config->service.max_running_per_submitter, err);
}

const char *const visibility_names[] = { "own", "all" };

READER(read_visibility)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	bool is_all = str_eq(text, visibility_names[VISIBILITY_ALL]);
	if (!is_all && !str_eq(text, visibility_names[VISIBILITY_OWN]))
		return node_error(d, n, err, "'%s' is no visibility; write own or all",
				  show_text(text, shown));
	layer->config->service.visibility = is_all ? VISIBILITY_ALL : VISIBILITY_OWN;
	config_say(layer, d, n, "service.visibility");
	return 0;
}

READER(read_check_runtimes)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	uint64_t *every = &layer->config->service.check_runtimes_ns;
	if (str_eq(text, "never"))
		*every = 0;
	else if (num_duration(text, every, &why) < 0)
		return node_error(d, n, err, "%s; or write never", why.text);
	config_say(layer, d, n, "service.check_runtimes");
	return 0;
}

READER(read_shares)
{
	struct config_layer *layer = target;
	if (n->kind != NODE_MAP || n->n > SHARES_MAX)
		return node_error(
			d, n, err,
			"expected a map of submitters with their weights, such as {ana: 3}, at most %d",
			SHARES_MAX);
	struct pairs *shares = &layer->config->service.shares;
	for (size_t i = 0; i < n->n; i++) {
		uint64_t weight = 0;
		int r = read_number(d, n->values[i], layer, "service.shares", &weight, err);
		if (r < 0)
			return r;
		if (weight < 1 || weight > 1000)
			return node_error(d, n->values[i], err, "a weight is from 1 to 1000");
		pairs_set(shares, n->keys[i]->text, n->values[i]->text);
	}
	return 0;
}

int config_read_service(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	static const struct key_row rows[] = {
		{ "socket", read_socket },
		{ "group", read_group },
		{ "listen", read_listen },
		{ "max_running", read_max_running },
		{ "max_queued_per_submitter", read_max_queued },
		{ "max_running_per_submitter", read_max_running_each },
		{ "shares", read_shares },
		{ "check_runtimes", read_check_runtimes },
		{ "visibility", read_visibility },
	};
	return map_read(d, n, ROWS(rows), target, err);
}

char *config_service_socket(const struct config *c)
{
	if (c->service.socket)
		return xstrdup(c->service.socket);
	if (str_eq(c->home, "/var/lib/cupel"))
		return xstrdup(SERVICE_SOCKET_HOST);
	return xasprintf("%s/cupel.sock", c->home);
}

void service_settings_release(struct service_settings *s)
{
	free(s->socket);
	free(s->group);
	free(s->listen);
	pairs_release(&s->shares);
}
