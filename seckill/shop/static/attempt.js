// What this browser remembers of a shopper's attempt at an item, so that a reload, a
// closed tab or a phone that was frozen loses nothing:
//
//   {opens, quantity}                       armed: the path is fetched before the opening
//   {opens, quantity, no, path, from, until}  where the attempt is sent, in server time
//
// Further members: manual, the shopper pressed the button after the opening; sent, the
// path was sent at least once; queued, the number is in line; refused, the code of the
// answer after which the same path may be sent once more by the shopper.
//
// It is kept for one user alone, because the next one at this browser is another.
const prefix = "stampede-attempt-";
const lifetime = 120_000; // ms after the opening for which arming holds: as long as a path does

// slot is where the attempt of a user at an item is kept.
export const slot = (user, item) => `${prefix}${user}-${item}`;

// recall returns what is remembered, unless it is over by the server's clock.
export function recall(user, item, now) {
  let kept;
  try {
    kept = JSON.parse(localStorage.getItem(slot(user, item)));
  } catch {
    return undefined;
  }
  if (!kept) return undefined;
  // A number outlives its path: it may have been in line when the path ended.
  const over = kept.no ? !kept.sent && now > kept.until : now > kept.opens + lifetime;
  return over ? undefined : kept;
}

export const keepAttempt = (user, item, attempt) => localStorage.setItem(slot(user, item), JSON.stringify(attempt));
export const forget = (user, item) => localStorage.removeItem(slot(user, item));

// alone runs work in one tab at a time, so that two tabs get one path. Plain http has no
// locks; the server then gives the shopper one unit all the same.
export const alone = (user, item, work) => (navigator.locks ? navigator.locks.request(slot(user, item), work) : work());
