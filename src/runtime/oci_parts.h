/* The parts of OCI images, between oci.c and the files that do one thing each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "runtime/layer.h"
#include "spec/analysis.h"

#define OCI_TEXT_MAX   (4 << 20) /* an index, a manifest or a configuration */
#define OCI_LAYERS_MAX 512
#define OCI_REFS_MAX   1024 /* of one index */

/* "sha256:HEX" and how many bytes that are. */
struct oci_blob {
	char digest[HASH_HEX];
	uint64_t size;
};

enum oci_platform {
	OCI_THIS_HOST,
	OCI_OTHER,
	OCI_UNSAID, /* the image's configuration tells */
};

struct oci_ref {
	struct oci_blob blob;
	bool is_index;
	enum oci_platform platform;
	char *name; /* owned; its tag or its platform, for people */
};

struct oci_index {
	struct oci_ref *v; /* owned */
	size_t n;
};
void oci_index_release(struct oci_index *i);

struct oci_manifest {
	struct oci_blob config;
	struct oci_blob *layers; /* owned */
	size_t n_layers;
};
void oci_manifest_release(struct oci_manifest *m);

struct oci_settings {
	bool this_host; /* it is for linux and this architecture */
	char *platform; /* owned; "linux/arm64" */
	struct strv diff_ids;
	struct pairs env;
	char *work_dir; /* owned or NULL */
	char *user;     /* owned or NULL */
};
void oci_settings_release(struct oci_settings *s);

/* oci_parse.c: texts from outside. `where` is for messages. -EINVAL (caller). */
int oci_index_parse(const char *where, const char *text, size_t length, struct oci_index *ret,
		    struct err *err);
int oci_manifest_parse(const char *where, const char *text, size_t length, struct oci_manifest *ret,
		       struct err *err);
int oci_settings_parse(const char *where, const char *text, size_t length, struct oci_settings *ret,
		       struct err *err);
/* As OCI calls it: "amd64". */
const char *oci_architecture(void);

/* The image that was chosen, whole. */
struct oci_image {
	struct oci_blob manifest;
	struct oci_manifest parts;
	struct oci_settings settings;
	char *manifest_text; /* owned */
	char *settings_text; /* owned */
};
void oci_image_release(struct oci_image *i);

/* oci_pick.c: the one image of the layout for this host, its small blobs read and verified. */
int oci_pick(int layout_fd, struct oci_image *ret, struct err *err);
/* A blob opened for reading, its size compared; its digest too. */
int oci_open_blob(int layout_fd, const struct oci_blob *b, struct err *err);

/* oci_source.c: a layout as a directory. An archive is unpacked to `temp_name` below images_fd first. */
int oci_source_open(const char *path, int images_fd, const char *temp_name, struct err *err);
