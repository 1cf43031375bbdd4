/* Words of docker, Slurm, conda and kubectl that people try first, and what to use here instead. One table for commands and one for options. */
#pragma once

/* What a command is called here, or NULL: "use `cupel cancel ID`". */
const char *foreign_command(const char *word);
/* The same for an option of `run`, `plan` and `submit`; `argument` is as it was typed: "--gpus=1", "-it". */
const char *foreign_option(const char *argument);
