# A long table with its original through mice's as.mids, with and pool; and, where it is installed, through mitools.
# Rscript pool.R long.csv FOLDER writes completed.csv, linear.csv, logistic.csv and mitools.csv into FOLDER.
suppressPackageStartupMessages(library(mice))
arguments <- commandArgs(trailingOnly = TRUE)
long <- read.csv(arguments[1], na.strings = "", stringsAsFactors = TRUE)
write <- function(table, name) write.csv(table, file.path(arguments[2], name), row.names = FALSE, na = "")

imputed <- suppressWarnings(as.mids(long))
write(complete(imputed, "long", include = TRUE), "completed.csv")

pooled <- function(fits) {
  found <- pool(fits)
  cbind(summary(found, conf.int = TRUE), found$pooled[c("fmi", "lambda", "ubar", "b", "t", "dfcom")])
}
write(pooled(with(imputed, lm(systolic ~ age + bmi + sex))), "linear.csv")
exact <- glm.control(epsilon = 1e-15, maxit = 100)
write(pooled(with(imputed, glm(smoker ~ age + bmi, family = binomial, control = exact))), "logistic.csv")

if (requireNamespace("mitools", quietly = TRUE)) {
  drawn <- long[long$.imp > 0, ]
  fits <- lapply(split(drawn, drawn$.imp), function(table) lm(systolic ~ age + bmi + sex, data = table))
  found <- mitools::MIcombine(lapply(fits, coef), lapply(fits, vcov)) # with infinite complete-data df
  write(
    data.frame(estimate = coef(found), std.error = sqrt(diag(vcov(found))), df = found$df, fmi = found$missinfo),
    "mitools.csv"
  )
}
