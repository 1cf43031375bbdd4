/* Libraries and programs that only some things need: loaded, or looked for. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "doctor/parts.h"

#define GROUP "extras"

enum extra_need { NEED_NO, NEED_SQLITE, NEED_POSTGRES, NEED_ROOT };

struct extra {
	const char *name, *what_for, *package;
	enum extra_need need;
};

static const struct extra libraries[] = {
	{ "libsqlite3.so.0", "a ledger in SQLite", "libsqlite3-0", NEED_SQLITE },
	{ "libpq.so.5", "a ledger in PostgreSQL", "libpq5", NEED_POSTGRES },
	{ "libsmartcols.so.1", "tables; --json does without", "libsmartcols1", NEED_NO },
	{ "libarchive.so.13", "runtimes of container images, crates in zip files", "libarchive13",
	  NEED_NO },
	{ "libsystemd.so.0", "groups where systemd owns them", "libsystemd0", NEED_NO },
};

static const struct extra programs[] = {
	{ "mkfs.ext4", "root's working directories of a size", "e2fsprogs", NEED_ROOT },
	{ "unsquashfs", "squashfs runtimes of ordinary users", "squashfs-tools", NEED_NO },
	{ "mmdebstrap", "making runtimes of Debian packages", "mmdebstrap", NEED_NO },
};

static bool is_needed(const struct config *c, enum extra_need need)
{
	bool is_postgres = c->ledger_url && !str_starts(c->ledger_url, "sqlite:");
	switch (need) {
	case NEED_SQLITE:
		return !is_postgres;
	case NEED_POSTGRES:
		return is_postgres;
	case NEED_ROOT:
		return geteuid() == 0 && c->disk != DISK_WATCHED;
	default:
		return false;
	}
}

static bool is_loaded(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library)
		(void)dlclose(library);
	return library;
}

static bool is_installed(const char *name)
{
	static const char *const places[] = { "/usr/sbin", "/usr/bin",        "/sbin",
					      "/bin",      "/usr/local/sbin", "/usr/local/bin" };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", places[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static void judge(struct examination *x, const struct extra *e, bool there, struct str *present)
{
	if (there) {
		str_addf(present, "%s%s", present->length ? ", " : "", e->name);
		return;
	}
	bool needed = is_needed(x->config, e->need);
	struct finding *f = finding_add(x->d, GROUP, e->name);
	finding_is(f, needed ? FINDING_MISSING : FINDING_NOTE, "not there; it is for %s",
		   e->what_for);
	finding_root_remedy(f, "apt-get install %s", e->package);
}

void examine_extras(struct examination *x)
{
	CLEANUP_STR struct str present = { 0 };
	examine_step(x, "libraries and programs");
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
		judge(x, &libraries[i], is_loaded(libraries[i].name), &present);
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		judge(x, &programs[i], is_installed(programs[i].name), &present);
	struct finding *f = finding_add(x->d, GROUP, "present");
	finding_is(f, FINDING_OK, "%s", str_text(&present));
}
