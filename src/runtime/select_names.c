/* Names of modules, packages and distributions: which a language brings itself, and which two mean one thing. */
#include <string.h>

#include "base/str.h"
#include "runtime/select_parts.h"
#include "spec/show.h"

enum language language_find(const char *name)
{
	static const struct {
		const char *name;
		enum language language;
	} rows[] = { { "python", LANGUAGE_PYTHON },
		     { "python2", LANGUAGE_PYTHON },
		     { "python3", LANGUAGE_PYTHON },
		     { "ipython", LANGUAGE_PYTHON },
		     { "r", LANGUAGE_R },
		     { "R", LANGUAGE_R },
		     { "Rscript", LANGUAGE_R },
		     { "sh", LANGUAGE_SHELL },
		     { "bash", LANGUAGE_SHELL },
		     { "dash", LANGUAGE_SHELL },
		     { "ksh", LANGUAGE_SHELL },
		     { "zsh", LANGUAGE_SHELL },
		     { "shell", LANGUAGE_SHELL },
		     { ".py", LANGUAGE_PYTHON },
		     { ".pyw", LANGUAGE_PYTHON },
		     { ".R", LANGUAGE_R },
		     { ".r", LANGUAGE_R },
		     { ".sh", LANGUAGE_SHELL },
		     { ".bash", LANGUAGE_SHELL } };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (str_eq(name, rows[i].name))
			return rows[i].language;
	return name && str_starts(name, "python3.") ? LANGUAGE_PYTHON : LANGUAGE_OTHER;
}

/* sys.stdlib_module_names of the versions 3.8 to 3.14, without those that begin with '_'. Words between blanks. */
static const char python_own[] =
	" abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore"
	" atexit audioop base64 bdb binascii binhex bisect builtins bz2 cProfile calendar"
	" cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall"
	" compression concurrent configparser contextlib contextvars copy copyreg crypt"
	" csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest"
	" dummy_threading email encodings ensurepip enum errno faulthandler fcntl filecmp"
	" fileinput fnmatch formatter fractions ftplib functools gc genericpath getopt"
	" getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib"
	" imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3"
	" linecache locale logging lzma macpath mailbox mailcap marshal math mimetypes"
	" mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath"
	" nturl2path numbers opcode operator optparse os ossaudiodev parser pathlib pdb"
	" pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint"
	" profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri"
	" random re readline reprlib resource rlcompleter runpy sched secrets select"
	" selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket"
	" socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat"
	" statistics string stringprep struct subprocess sunau symbol symtable sys"
	" sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this"
	" threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc"
	" tty turtle turtledemo types typing unicodedata unittest urllib uu uuid venv"
	" warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc"
	" zipapp zipfile zipimport zlib zoneinfo ";

/* What comes with R itself; the recommended packages are packages. */
static const char r_own[] =
	" base compiler datasets grDevices graphics grid methods parallel splines stats stats4"
	" tcltk tools utils ";

/* What bash knows itself, and what every Debian has. */
static const char shell_own[] =
	" . : [ [[ alias awk basename bg break builtin cat cd chgrp chmod chown cmp command comm"
	" continue cp cut date dd declare df diff dirname echo env eval exec exit expand export"
	" expr false fg find fold getopts grep egrep fgrep gunzip gzip hash head hostname id"
	" install jobs join kill let ln local ls mapfile md5sum mkdir mkfifo mktemp mv nice nl"
	" nohup nproc od paste popd printf pushd pwd read readarray readlink readonly realpath"
	" return rm rmdir sed seq set sha256sum shift shopt shuf sleep sort source split stat"
	" stdbuf sync tac tail tar tee test time timeout touch tr trap true truncate type ulimit"
	" umask uname unexpand uniq unset wait wc which whoami xargs yes zcat zgrep ";

bool language_has(enum language language, const char *name)
{
	char word[NAME_MAX_ + 3];
	if (language == LANGUAGE_PYTHON && name[0] == '_')
		return true;
	(void)snprintf(word, sizeof word, " %s ", name);
	return (language == LANGUAGE_PYTHON && strstr(python_own, word)) ||
	       (language == LANGUAGE_R && strstr(r_own, word)) ||
	       (language == LANGUAGE_SHELL && strstr(shell_own, word));
}

/* Modules that are not called like the distribution that brings them; both in the form of name_plain(). */
static const struct {
	const char *module;
	const char *distribution;
} distributions[] = {
	{ "attr", "attrs" },
	{ "bio", "biopython" },
	{ "bs4", "beautifulsoup4" },
	{ "cairo", "pycairo" },
	{ "community", "python-louvain" },
	{ "crypto", "pycryptodome" },
	{ "cv2", "opencv-python" },
	{ "dateutil", "python-dateutil" },
	{ "docx", "python-docx" },
	{ "dotenv", "python-dotenv" },
	{ "fitz", "pymupdf" },
	{ "igraph", "python-igraph" },
	{ "mpl-toolkits", "matplotlib" },
	{ "mysqldb", "mysqlclient" },
	{ "openssl", "pyopenssl" },
	{ "osgeo", "gdal" },
	{ "pil", "pillow" },
	{ "pkg-resources", "setuptools" },
	{ "pylab", "matplotlib" },
	{ "serial", "pyserial" },
	{ "skbio", "scikit-bio" },
	{ "skimage", "scikit-image" },
	{ "sklearn", "scikit-learn" },
	{ "skmisc", "scikit-misc" },
	{ "tables", "pytables" },
	{ "umap", "umap-learn" },
	{ "usb", "pyusb" },
	{ "yaml", "pyyaml" },
	{ "zmq", "pyzmq" },
};

void name_plain(enum language language, const char *name, char ret[NAME_MAX_ + 1])
{
	size_t n = 0;
	if (language != LANGUAGE_PYTHON) {
		(void)snprintf(ret, NAME_MAX_ + 1, "%s", name);
		return;
	}
	for (; *name && n < NAME_MAX_; name++) {
		char c = *name == '_' || *name == '.' ? '-' : *name;
		if (c == '-' && n > 0 && ret[n - 1] == '-')
			continue;
		ret[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	ret[n] = '\0';
	for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++)
		if (str_eq(ret, distributions[i].module)) {
			(void)snprintf(ret, NAME_MAX_ + 1, "%s", distributions[i].distribution);
			return;
		}
}

bool dependency_name(const char *dependency, char *buffer, size_t room)
{
	size_t n = strspn(dependency, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.");
	if (n == 0 || n >= room || strchr(dependency + n, ';'))
		return false;
	memcpy(buffer, dependency, n);
	buffer[n] = '\0';
	return true;
}

void needs_add(struct strv *needs, const char *name, size_t length)
{
	char text[NAME_MAX_ + 1];
	if (length == 0 || length > NAME_MAX_ || needs->n >= NEEDS_MAX ||
	    memchr(name, '\0', length))
		return;
	memcpy(text, name, length);
	text[length] = '\0';
	if (text_is_label(text, NAME_MAX_) && !strpbrk(text, " /") && !strv_has(needs, text))
		strv_add(needs, text);
}

void names_list(const struct strv *names, struct str *ret)
{
	enum { SHOWN = 8 };
	size_t n = names->n <= SHOWN + 1 ? names->n : SHOWN;
	for (size_t i = 0; i < n; i++) {
		CLEANUP_FREE char *name = str_visible(names->v[i]);
		str_addf(ret, "%s%.60s", i ? ", " : "", name);
	}
	if (n < names->n)
		str_addf(ret, " and %zu more", names->n - n);
}
