# Rscript mice_draws.R METHOD ITERATIONS NUMBER SEED FOLDER: read FOLDER/given.csv, write FOLDER/1.csv, 2.csv, …
# Columns named f… are factors, the others numbers.
suppressPackageStartupMessages(library(mice))
options(ranger.num.threads = 1)
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[5]
given <- read.csv(file.path(folder, "given.csv"), na.strings = "NA")
for (name in grep("^f", names(given), value = TRUE)) given[[name]] <- factor(given[[name]])
# by default mice neither imputes nor uses columns that (nearly) determine each other, and the least squares of its pmm,
# where indicators of levels are collinear, lead it far off; a ridge does not
more <- if (arguments[1] == "pmm") list(ls.meth = "ridge", ridge = 1e-3) else list()
drawn <- do.call(mice, c(list(given, m = as.integer(arguments[3]), method = arguments[1],
                              maxit = as.integer(arguments[2]), seed = as.integer(arguments[4]), printFlag = FALSE,
                              remove.collinear = FALSE, threshold = 2, maxcor = 2), more))
for (i in seq_len(drawn$m)) {
  write.csv(complete(drawn, i), file.path(folder, paste0(i, ".csv")), row.names = FALSE, quote = FALSE)
}
writeLines(as.character(packageVersion("mice")), file.path(folder, "version.txt"))
