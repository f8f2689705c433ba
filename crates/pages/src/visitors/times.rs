//! When something last happened to users: a bounded table.

/// When something last happened to each user.
#[derive(Debug, Default)]
pub struct UserTimes {
    list: Vec<(u64, u64)>,
    /// When it last happened to all, or to those who are no longer in the list.
    floor: u64,
}

/// Maximum number of users of whom that is remembered. It must happen to this many others during a run before its proof is lost.
const MOST_TIMES: usize = 256;

impl UserTimes {
    /// It happens to this user, or to all (0).
    pub fn set(&mut self, user: u64, when: u64) {
        if user == 0 {
            self.floor = when;
            return self.list.clear();
        }
        self.list.retain(|(known, _)| *known != user);
        if self.list.len() == MOST_TIMES {
            self.floor = self.list.remove(0).1;
        }
        self.list.push((user, when));
    }

    /// When it last happened to this user.
    pub fn of(&self, user: u64) -> u64 {
        let own = self.list.iter().find(|(known, _)| *known == user).map_or(0, |(_, when)| *when);
        own.max(self.floor)
    }
}
