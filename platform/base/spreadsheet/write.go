package spreadsheet

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Mark begins a CSV file: without the byte order mark, Excel takes UTF-8 for the machine's
// own code page.
const Mark = "\ufeff"

// Defused is a cell of a CSV file that no spreadsheet takes for a formula: a title is what a
// person typed. Chinese and Japanese spreadsheets take the wide signs for the others. A
// negative number stays one.
func Defused(cell string) string {
	first, _ := utf8.DecodeRuneInString(cell)
	if cell == "" || !strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return cell
	}
	if _, err := strconv.ParseInt(cell, 10, 64); err == nil && cell[0] == '-' {
		return cell
	}
	return "'" + cell
}

// long are numbers that a spreadsheet rounds, or shows as 7.73E+11.
var long = regexp.MustCompile(`^([0-9]{12,}|[0-9]+[eE][0-9]+)$`)

// Text is Defused of a cell that is a text although it may look like a number. A tab behind it,
// which no reader sees, keeps a spreadsheet from rounding it.
func Text(cell string) string {
	if long.MatchString(cell) {
		return cell + "\t"
	}
	return Defused(cell)
}
