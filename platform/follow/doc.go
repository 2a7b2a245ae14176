// Package follow keeps a picture of a part of Postgres in the memory of every
// instance, so that asking costs no query.
//
// The part has a revision, one number in one row, which every change raises in its
// own transaction. After the commit a broadcast has all instances look at it; one
// that misses the broadcast looks by itself twice a second. So a change is in force
// everywhere within a second, and where it was made when Change returns. A picture
// is immutable, belongs to one revision, and is replaced as a whole. While Postgres
// is away the last one stays in force.
package follow
