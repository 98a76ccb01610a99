// Package holiday knows the public holidays of countries and of some of their regions,
// from the definitions of github.com/rickar/cal: rules such as "the Monday after Easter",
// with the days on which a holiday that falls on a weekend is observed.
//
// A holiday here is the day that is observed, not the one that is celebrated: when
// Christmas Day is a Saturday in London, the Monday is a holiday. Years beyond what a
// rule was made for follow the rule: nobody can know the holidays that a parliament will
// decide on. Such days, and a company's own, belong into a file beside.
package holiday
