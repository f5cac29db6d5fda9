# Rscript mice_draws.R METHOD ITERATIONS NUMBER (SEED FOLDER) …: read FOLDER/given.csv, write FOLDER/1.csv, 2.csv, …
# Columns named f… are factors, the others numbers; rows with 1 in the column `new` are imputed but not learned from. METHOD is mice's; "default": its own choice for each column; "norm":
# Bayesian linear regression for numbers, its own choice for factors.
suppressPackageStartupMessages(library(mice))
options(ranger.num.threads = 1)
arguments <- commandArgs(trailingOnly = TRUE)
method <- arguments[1]
# by default mice neither imputes nor uses columns that (nearly) determine each other, and the least squares of its pmm,
# where indicators of levels are collinear, lead it far off; a ridge does not
more <- if (method == "pmm") list(ls.meth = "ridge", ridge = 1e-3) else list()
for (i in seq(4, length(arguments), by = 2)) {
  folder <- arguments[i + 1]
  given <- read.csv(file.path(folder, "given.csv"), na.strings = "NA")
  new <- given$new == 1
  given$new <- NULL
  for (name in grep("^f", names(given), value = TRUE)) given[[name]] <- factor(given[[name]])
  own <- make.method(given)
  chosen <- switch(method, default = own, norm = ifelse(own == "pmm", "norm", own), method)
  began <- proc.time()
  drawn <- do.call(mice, c(list(given, m = as.integer(arguments[3]), method = chosen,
                                maxit = as.integer(arguments[2]), seed = as.integer(arguments[i]), printFlag = FALSE,
                                ignore = new, remove.collinear = FALSE, threshold = 2, maxcor = 2), more))
  for (j in seq_len(drawn$m)) {
    write.csv(complete(drawn, j), file.path(folder, paste0(j, ".csv")), row.names = FALSE, quote = FALSE)
  }
  used <- proc.time() - began
  writeLines(as.character(used[["user.self"]] + used[["sys.self"]]), file.path(folder, "seconds.txt"))
  writeLines(as.character(packageVersion("mice")), file.path(folder, "version.txt"))
}
