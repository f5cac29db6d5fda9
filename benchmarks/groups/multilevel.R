# Multilevel imputation in R: Rscript multilevel.R METHOD DRAWS SEED FOLDER
# METHOD is 2l.pan (mice, a linear mixed model a column) or jomo (one multilevel normal of all columns).
# FOLDER has given.csv: patient, visit, age, standardised numbers, treated; it gets 1.csv, 2.csv, … and version.txt.
arguments <- commandArgs(TRUE)
method <- arguments[1]
draws <- as.integer(arguments[2])
folder <- arguments[4]
set.seed(as.integer(arguments[3]))
given <- read.csv(file.path(folder, "given.csv"))
given$treated <- factor(given$treated)
numbers <- setdiff(names(given), c("patient", "visit", "age", "treated"))
drifts <- "slopes" %in% arguments  # patients have slopes of their own over visits
keep <- function(table, i) {
  table$treated <- as.numeric(as.character(table$treated))
  write.csv(table[c(numbers, "treated")], file.path(folder, paste0(i, ".csv")), row.names = FALSE)
}
if (method == "jomo") {
  suppressMessages(library(jomo))
  random <- data.frame(one = rep(1, nrow(given)))
  if (drifts) random$visit <- given$visit
  found <- jomo(
    Y = given[c(numbers, "treated")], X = data.frame(one = 1, age = given$age, visit = given$visit), Z = random,
    clus = given$patient, nburn = 500, nbetween = 50, nimp = draws, output = 0
  )
  for (i in seq_len(draws)) keep(found[found$Imputation == i, ], i)
} else {
  suppressMessages(library(mice))
  blank <- mice(given, maxit = 0)
  predictors <- blank$predictorMatrix
  methods <- blank$method
  methods[numbers] <- "2l.pan"
  methods["treated"] <- "logreg"
  predictors[numbers, "patient"] <- -2  # the group
  if (drifts) predictors[numbers, "visit"] <- 2
  predictors["treated", "patient"] <- 0
  found <- mice(
    given, m = draws, maxit = 5, predictorMatrix = predictors, method = methods, printFlag = FALSE,
    seed = as.integer(arguments[3])
  )
  for (i in seq_len(draws)) keep(complete(found, i), i)
}
version <- paste0(method, ", R package ", if (method == "jomo") "jomo " else "pan ",
                  packageVersion(if (method == "jomo") "jomo" else "pan"))
writeLines(version, file.path(folder, "version.txt"))
