/* What a fingerprint is made of; shared by fingerprint*.c, lock.c, manifest*.c and drift*.c, and by what is protected, which is looked at in
 * the same way.
 *
 * A snapshot is a runtime as it was seen: the items that its package managers tell of (identity), and its files (stat, content).
 * The lock's manifest is the same written down, so that two snapshots are compared and no third form exists. */
#pragma once

#include <sys/stat.h>

#include "base/hash.h"
#include "runtime/fingerprint.h"
#include "runtime/parallel.h"

/* Texts that live as long as their owner: a file's path costs no allocation of its own. */
struct arena {
	struct arena_block *blocks; /* owned */
};
void arena_release(struct arena *a);
char *arena_text(struct arena *a, const char *directory, const char *name); /* "DIRECTORY/NAME" */
char *arena_bytes(struct arena *a, const char *bytes, size_t length);       /* with a NUL */
void arena_join(struct arena *a, struct arena *from); /* `from` is empty afterwards */

/* Bytes below 0x20, DEL, '\' and what is not UTF-8 become \xHH (\n, \t, \\ have short forms): one line, and nothing is lost. */
void text_escape(struct str *out, const char *text);
/* In place; false if it is not what text_escape writes. */
bool text_unescape(char *text);
/* What is left of an open file, NUL-terminated; -EFBIG above `max`. No text of error. */
int text_read(int fd, size_t max, char **ret, size_t *ret_length);
/* A JSON object; err names the file and the place. */
int text_json(const char *file, const char *text, size_t length, json_t **ret, struct err *err);

/* One thing that a package manager or a file of its own says is there. All owned, none NULL. */
struct item {
	char *kind; /* "conda", "python", "dpkg": packages; "file", "program", "alternative", "root", "image" */
	char *name;
	char *version;
	char *where; /* site-packages directory, architecture, or "" */
	char *digest;
};
struct items {
	struct item *v; /* owned */
	size_t n, room;
};
void items_release(struct items *list);
void items_add(struct items *list, const char *kind, const char *name, const char *version,
	       const char *where, const char *digest);
void items_sort(struct items *list);
/* Kind, name, place: what makes two items versions of one thing. */
int item_order(const struct item *a, const struct item *b);
bool item_is_package(const struct item *i);
/* Of the sorted list. */
void items_digest(const struct items *list, char ret_hex[HASH_HEX]);

/* What identity looks at. With items NULL only names and stat tuples go into the key, which says cheaply whether anything could
 * have changed. Paths are relative to root_fd; links lead nowhere outside it. */
struct probe {
	int root_fd;             /* owned */
	uint64_t resolve;        /* RESOLVE_BENEATH in a prefix, RESOLVE_IN_ROOT in a root */
	bool is_host;            /* the root is our own */
	struct hash *key;        /* borrowed */
	int64_t newest_ctime_ns; /* of all that was looked at */
	struct items *items;     /* borrowed or NULL */
};
void probe_release(struct probe *p);
/* Stat tuple of what the path leads to, "" if nothing is there; into the key too. */
#define TUPLE_TEXT 112
int probe_tuple(struct probe *p, const char *path, char ret[TUPLE_TEXT], struct err *err);
/* The same without the ctime, which changes when a hard link to the file is made elsewhere. */
int probe_program(struct probe *p, const char *path, char ret[TUPLE_TEXT], struct err *err);
/* SHA-256 of the file; "" if there is none, "?" if only the key is asked for. */
int probe_digest(struct probe *p, const char *path, char ret_hex[HASH_HEX], struct err *err);
/* An item "file" of the path with that digest, if it is there. */
int probe_file(struct probe *p, const char *path, struct err *err);
/* Sorted names in a directory; none if it is not there. */
int probe_list(struct probe *p, const char *path, struct strv *ret, struct err *err);
/* Open for reading; a regular file or -EINVAL. No text. */
int probe_open(const struct probe *p, const char *path);

int identity_conda(struct probe *p, struct err *err);
int identity_venv(struct probe *p, const char *prefix, struct err *err);
int identity_system(struct probe *p, const struct runtime *r, struct err *err);
int identity_rootfs(struct probe *p, const struct runtime *r, struct err *err);
int identity_squashfs(struct probe *p, const char *path, struct err *err);
int identity_image(struct probe *p, const struct runtime *r, struct err *err);
/* Every site-packages or dist-packages below LIB/python*: *.dist-info, *.egg-info, *.pth. */
int identity_python(struct probe *p, const char *lib, struct err *err);
/* Those directories. */
int python_sites(struct probe *p, const char *lib, struct strv *ret, struct err *err);
/* "numpy-1.26.4.dist-info" -> name and version, owned; false for other names. */
bool dist_info_split(const char *entry, char **ret_name, char **ret_version);

/* Installed Debian packages, of the host or in a root. */
struct dpkg_package {
	char *name, *version, *arch, *depends, *pre_depends,
		*provides; /* borrowed from text, or NULL */
	bool wanted;
};
struct dpkg {
	char *text;             /* owned */
	struct dpkg_package *v; /* owned; sorted by name */
	size_t n;
};
void dpkg_release(struct dpkg *d);
#define DPKG_STATUS "var/lib/dpkg/status"
#define DPKG_INFO   "var/lib/dpkg/info"
/* An absent status file gives an empty list. */
int dpkg_read(int root_fd, struct dpkg *ret, struct err *err);
int dpkg_parse(char *text, size_t length, struct dpkg *ret, struct err *err); /* takes text */
/* Marks what is named and all that it depends on; names that are not installed go to ret_absent. */
void dpkg_want(struct dpkg *d, const struct strv *names, struct strv *ret_absent);
void dpkg_want_all(struct dpkg *d);
/* What stat and content of a system runtime look at: what it names, or else its interpreters' packages. */
void dpkg_names(const struct runtime *r, struct strv *ret);
/* INFO/NAME[:ARCH].SUFFIX as text, owned; *ret NULL if there is none. */
int dpkg_info(int root_fd, const struct dpkg_package *p, const char *suffix, char **ret,
	      struct err *err);

/* Where dpkg put what a package's list names. */
struct dpkg_paths {
	struct strv
		rules; /* "-GLOB", "+GLOB": path-exclude and path-include; the last that matches decides */
	struct strv diversions; /* from, to, by which package; three lines a diversion */
	struct strv merged;     /* "bin=usr/bin": links at the top of the root */
};
void dpkg_paths_release(struct dpkg_paths *p);
void dpkg_paths_read(int root_fd, struct dpkg_paths *ret);
/* Relative to the root, as a walk would find it; owned. */
char *dpkg_path(const struct dpkg_paths *p, const char *path, const char *package);
bool dpkg_excluded(const struct dpkg_paths *p, const char *path);

/* A file of the runtime. */
struct entry {
	const char *path;   /* borrowed; relative to the runtime's root, or absolute on the host */
	const char *target; /* borrowed; a link's, else NULL */
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
	uint32_t mode; /* permissions */
	char kind;     /* f file, d directory, l link, m mount point, o something else */
	bool suspect;  /* differs from the lock by its ctime alone: see drifts_suspects */
	char sha256[HASH_HEX];
};
struct tree {
	int root_fd;      /* owned */
	uint64_t resolve; /* how a path is opened below it; 0: no link on the way */
	bool is_whole;    /* bytecode counts too: it is no runtime */
	const char *skip; /* borrowed or NULL; a directory below it that is not entered */
	size_t max;       /* entries; 0: as many as a runtime may have */
	struct entry *v;  /* owned; sorted by entry_order */
	size_t n;
	struct arena arena;
	char (*md5)[HASH_MD5_HEX]; /* owned or NULL; of v[i], where tree_hash was asked for it */
};
#define TREE_INIT                                                                                  \
	{                                                                                          \
		.root_fd = -1                                                                      \
	}
void tree_release(struct tree *t);
int entry_order(const struct entry *a, const struct entry *b);
void entry_fill(struct entry *e, const struct stat *st);
/* *.pyc and what is below __pycache__: made by running, checked by nobody. */
bool path_left_out(const char *path);
/* All below t->root_fd. */
int tree_walk(struct tree *t, const struct fingerprint_progress *progress, struct err *err);
/* One more file, by absolute path. */
int tree_add(struct tree *t, const char *path, struct err *err);
/* The files of the wanted packages that are there, below t->root_fd. */
int tree_dpkg(struct tree *t, const struct dpkg *d, struct err *err);
enum tree_part { TREE_ALL, TREE_ALL_MD5, TREE_SUSPECTS };
int tree_hash(struct tree *t, enum tree_part part, const struct fingerprint_progress *progress,
	      struct err *err);
void tree_digest_stat(const struct tree *t, char ret_hex[HASH_HEX]);
void tree_digest_content(const struct tree *t, char ret_hex[HASH_HEX]);

struct snapshot {
	struct items items;
	struct tree tree;
	struct fingerprint fingerprint;
};
#define SNAPSHOT_INIT                                                                              \
	{                                                                                          \
		.tree = TREE_INIT                                                                  \
	}
void snapshot_release(struct snapshot *s);
#define CLEANUP_SNAPSHOT CLEANUP(snapshot_release)
int snapshot_take(const struct runtime *r, enum depth depth, enum tree_part part,
		  const struct fingerprint_progress *progress, struct snapshot *ret,
		  struct err *err);
/* The directory that the runtime's paths are relative to: prefix, root, or "/" for system. NULL for a squashfs file. */
const char *runtime_base(const struct runtime *r);

enum record_source { RECORD_CONDA, RECORD_PYTHON, RECORD_DPKG, RECORD_DPKG_LIST };
/* What the package managers recorded of a file. */
struct record {
	const char *path;  /* borrowed; as in struct entry */
	const char *owner; /* borrowed */
	enum record_source source;
	char hex[HASH_HEX]; /* SHA-256, of dpkg MD5; "" if none is said */
};
struct records {
	struct record *v; /* owned; sorted by path */
	size_t n, room;
	struct arena arena;
	struct strv refused; /* lines that lead outside the runtime: "FILE: PATH" */
};
void records_release(struct records *list);
int records_read(const struct runtime *r, struct records *ret, struct err *err);
/* The first for this path; those that follow with an equal path are for it too. NULL if there is none. */
const struct record *records_find(const struct records *list, const char *path);
/* One file's text, for tests and fuzzing. `where` is the file's path, site the directory its lines are relative to. */
int records_parse_python(struct records *list, const char *where, const char *site,
			 const char *owner, const char *text, size_t length, struct err *err);
int records_parse_conda(struct records *list, const char *where, const json_t *package,
			struct err *err);
void records_add(struct records *list, const struct record *one);
/* Of Debian packages: md5sums, without what was diverted or excluded by dpkg's configuration. */
int records_dpkg(struct records *list, int root_fd, const struct dpkg *d, struct err *err);

/* The manifest's text; manifest_parse reads it back into a snapshot, whose arena owns `text`. */
void manifest_write(const char *runtime, const struct snapshot *s, struct str *ret);
int manifest_parse(const char *file, const char *runtime, const char *text, size_t length,
		   struct snapshot *ret, struct err *err);
/* A lock's manifest, believed only if its digest is `sha256`. */
int manifest_read(const char *file, const char *runtime, const char *sha256, struct snapshot *ret,
		  struct err *err);

void drifts_add(struct drifts *d, enum drift_kind kind, const char *path, const char *detail,
		const char *owner);
void drifts_items(struct drifts *d, const struct items *then, const struct items *now);
/* Marks what has another ctime and is the same otherwise. A hard link made elsewhere does that, as conda's package cache has them, and
 * a forged mtime too: only the content tells them apart. Returns how many there are. */
size_t drifts_suspects(const struct tree *then, struct tree *now);
/* `content`: by digest and target, times do not matter; else by stat tuple, and suspects by digest. */
void drifts_trees(struct drifts *d, const struct tree *then, const struct tree *now,
		  enum depth depth);
void drifts_records(struct drifts *d, const struct records *records, const struct tree *now);
void drifts_owners(struct drifts *d, const struct records *records);
