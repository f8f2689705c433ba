/*
 * Whether the libphp that the loader has found is the one that this program was built for. The structures of another one
 * differ. Its version and the number of its binary interface are read before any of its code runs: as text, in its file.
 */
#include "worker.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* What ahead of the version stands in every libphp (main/main.c): the field that expose_php adds to responses. */
#define BEFORE_VERSION "X-Powered-By: PHP/"

struct search {
	const char *text;
	/* The results: the text's place, and the library's file. */
	const char *found;
	char file[256];
};

/* Called for each loaded library; looks for the text in the constants of libphp. */
static int look_into(struct dl_phdr_info *library, size_t size, void *data)
{
	struct search *search = data;
	uintptr_t inside = (uintptr_t)dlsym(RTLD_DEFAULT, "sapi_startup");
	bool is_libphp = false;
	(void)size;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		is_libphp |= part->p_type == PT_LOAD && inside - (library->dlpi_addr + part->p_vaddr) < part->p_memsz;
	}
	for (int i = 0; is_libphp && !search->found && i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		if (part->p_type == PT_LOAD && (part->p_flags & (PF_R | PF_W)) == PF_R) {
			const void *start = (const void *)(library->dlpi_addr + part->p_vaddr);
			search->found = memmem(start, part->p_filesz, search->text, strlen(search->text));
		}
	}
	if (is_libphp) {
		snprintf(search->file, sizeof search->file, "%s", library->dlpi_name);
	}
	return is_libphp;
}

bool version_fits(void)
{
	/* `API20220829,NTS`: it changes with each minor version, and with the build's options that change structures. */
	struct search abi = { .text = ZEND_MODULE_BUILD_ID }, version = { .text = BEFORE_VERSION };
	dl_iterate_phdr(look_into, &abi);
	if (abi.found) {
		return true;
	}
	dl_iterate_phdr(look_into, &version);
	main_fail("built for PHP %d.%d (%s), but %s is %s%.16s: reinstall the package libphp%d.%d-embed, or choose "
		"another version by php.version", PHP_MAJOR_VERSION, PHP_MINOR_VERSION, ZEND_MODULE_BUILD_ID, abi.file,
		version.found ? "PHP " : "another build of PHP", version.found ? version.found + strlen(BEFORE_VERSION) : "",
		PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	return false;
}
