# Ozone in New York, May to September 1973 (datasets::airquality): what it depends on, and a figure.
days <- na.omit(airquality)
fit <- lm(log(Ozone) ~ Solar.R + Wind + Temp, days)
write.csv(data.frame(term = names(coef(fit)), round(summary(fit)$coefficients, 6)), "out/coefficients.csv", row.names = FALSE)
cat(sprintf("n %d, R2 %.4f\n", nrow(days), summary(fit)$r.squared))
svg("out/fit.svg", width = 6, height = 5)
plot(fitted(fit), log(days$Ozone), xlab = "fitted", ylab = "log ozone (ppb)", pch = 19, col = "#4477aa")
abline(0, 1)
invisible(dev.off())
