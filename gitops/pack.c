#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <git2.h>

#include "gitops/hashfile.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"

#define PARTIAL "partial.pack"

static int by_oid(const void *a, const void *b)
{
	const struct pack_object *left = a, *right = b;

	return memcmp(left->oid, right->oid, SHA1_SIZE);
}

static size_t sort_unique(struct pack_object *objects, size_t count)
{
	size_t kept = 0;

	mem_sort(objects, count, sizeof(*objects), by_oid);
	for (size_t i = 0; i < count; i++)
		if (!kept || by_oid(&objects[kept - 1], &objects[i]) != 0)
			objects[kept++] = objects[i];
	return kept;
}

/* RFC 1950 and 1951: a stream of stored blocks. */
static void add_stored(struct hashfile *file, const unsigned char *data, size_t len)
{
	static const unsigned char head[2] = {0x78, 0x01};
	uint32_t a = 1, b = 0;

	hashfile_add(file, head, sizeof(head));
	do {
		size_t part = len < 65535 ? len : 65535;
		const unsigned char block[5] = {
		    part == len, (unsigned char)part, (unsigned char)(part >> 8),
		    (unsigned char)~part, (unsigned char)(~part >> 8)};

		hashfile_add(file, block, sizeof(block));
		hashfile_add(file, data, part);
		for (size_t i = 0; i < part; i++) {
			a += data[i];
			b += a;
			if (i % 4096 == 4095 || i + 1 == part) {
				a %= 65521;
				b %= 65521;
			}
		}
		data += part;
		len -= part;
	} while (len);
	hashfile_be32(file, b << 16 | a);
}

static void add_object(struct hashfile *file, struct pack_object *object, const void *data,
		       size_t len)
{
	unsigned char head[12];
	size_t used = 0, rest = len >> 4;

	object->offset = (uint32_t)file->offset;
	hashfile_crc_begin(file);
	head[used++] =
	    (unsigned char)((unsigned)object->type << 4 | (len & 15) | (rest ? 0x80 : 0));
	for (; rest; rest >>= 7)
		head[used++] = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
	hashfile_add(file, head, used);
	add_stored(file, data, len);
	object->crc = file->crc;
}

static int copy_object(struct gitops_repo *repo, struct hashfile *file,
		       struct pack_object *object, struct error *err)
{
	git_odb_object *read = NULL;
	git_oid oid;

	if (object->data) {
		add_object(file, object, object->data, object->len);
		return 0;
	}
	git_oid_fromraw(&oid, object->oid);
	if (repo_read(repo, &oid, &read) < 0)
		return gitops_error(err, ERROR_FAILED, "object %s", git_oid_tostr_s(&oid));
	size_t len = git_odb_object_size(read);
	if (file->offset + len + len / 65535 * 5 + 64 > PACK_BYTES_MAX) {
		git_odb_object_free(read);
		return error_set(err, ERROR_NO, "the tree's objects are more than 2 GiB");
	}
	add_object(file, object, git_odb_object_data(read), len);
	git_odb_object_free(read);
	return 0;
}

static int write_objects(struct gitops_repo *repo, struct hashfile *file,
			 struct pack_object *objects, size_t count, struct error *err)
{
	int rc = 0;

	hashfile_add(file, "PACK", 4);
	hashfile_be32(file, 2);
	hashfile_be32(file, (uint32_t)count);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = copy_object(repo, file, &objects[i], err);
	return rc;
}

static int write_index(struct hashfile *file, const struct pack_object *objects, size_t count,
		       const unsigned char pack_sum[SHA1_SIZE])
{
	static const unsigned char magic[8] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};
	unsigned char sum[SHA1_SIZE];
	size_t at = 0;

	hashfile_add(file, magic, sizeof(magic));
	for (unsigned first = 0; first < 256; first++) {
		while (at < count && objects[at].oid[0] <= first)
			at++;
		hashfile_be32(file, (uint32_t)at);
	}
	for (size_t i = 0; i < count; i++)
		hashfile_add(file, objects[i].oid, SHA1_SIZE);
	for (size_t i = 0; i < count; i++)
		hashfile_be32(file, objects[i].crc);
	for (size_t i = 0; i < count; i++)
		hashfile_be32(file, objects[i].offset);
	hashfile_add(file, pack_sum, SHA1_SIZE);
	return hashfile_end(file, sum);
}

static int create(int dir, const char *name)
{
	return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
}

/* Gives the finished pack its name, and writes the index beside it. */
static int finish(int dir, struct hashfile *file, const struct pack_object *objects,
		  size_t count, struct error *err)
{
	unsigned char sum[SHA1_SIZE];
	char name[64] = "pack-";
	int fd AUTO_FD = -1;

	if (hashfile_end(file, sum) < 0)
		return error_errno(err, ERROR_FAILED, errno, "writing a pack");
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		snprintf(name + strlen(name), 3, "%02x", sum[i]);
	AUTO_FREE char *pack = mem_printf("%s.pack", name), *idx = mem_printf("%s.idx", name);
	if (renameat(dir, PARTIAL, dir, pack) < 0 || (fd = create(dir, idx)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "writing a pack");
	hashfile_begin(file, fd);
	if (write_index(file, objects, count, sum) < 0)
		return error_errno(err, ERROR_FAILED, errno, "writing the index of a pack");
	return 0;
}

int pack_write(struct gitops_repo *repo, int dir, struct pack_object *objects, size_t count,
	       struct error *err)
{
	AUTO_FREE struct hashfile *file = mem_calloc(1, sizeof(*file));
	int fd AUTO_FD = create(dir, PARTIAL);
	int rc;

	if (fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "writing a pack");
	count = sort_unique(objects, count);
	hashfile_begin(file, fd);
	rc = write_objects(repo, file, objects, count, err);
	return rc < 0 ? rc : finish(dir, file, objects, count, err);
}
