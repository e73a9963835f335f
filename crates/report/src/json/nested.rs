//! Objects nested in one another, such as the frames of a stack, read in one pass.

use super::MemberPlace;
use super::{JsonScanner, MemberSlots, OpenObjects, Stop, Value};
use crate::ReadError;
use std::ops::Range;

/// An object of a chain.
#[derive(Clone, Debug)]
pub struct NestedObject<'a, const N: usize> {
    /// The members with the requested names. The last one of each name counts.
    pub members: [Option<Value<'a>>; N],
    place: MemberPlace,
    own: Option<Value<'a>>,
}

impl<'a, const N: usize> NestedObject<'a, N> {
    /// Returns the place of our member. `is_enriched` is true if the document's own member is ours.
    #[must_use]
    pub fn member_place(&self, is_enriched: bool) -> MemberPlace {
        if is_enriched { self.place.clone() } else { self.place.clone().without_own() }
    }

    /// Returns the value of its last member if that is an object with our key.
    #[must_use]
    pub fn own_value(&self) -> Option<Value<'a>> {
        self.own
    }
}

/// An object that is being read.
struct OpenObject {
    /// Its position in the chain.
    position: usize,
    members: usize,
    own: Option<Range<usize>>,
    list: Option<OpenObjects>,
}

/// Reads a chain in one pass over its bytes.
struct ChainReader<'a, 'k, const N: usize> {
    scanner: JsonScanner<'a>,
    keys: [&'k str; N],
    inner: &'k str,
    limit: usize,
    slots: MemberSlots,
    open: Vec<OpenObject>,
    chain: Vec<NestedObject<'a, N>>,
}

impl<'a> Value<'a> {
    /// Reads the chain that begins with this object: the first object in its list `inner`, the first one in that one's list,
    /// and so on, at most `limit`. Returns none for any other value.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the chain is longer.
    pub fn read_chain<const N: usize>(
        self,
        keys: [&str; N],
        inner: &str,
        limit: usize,
    ) -> Result<Vec<NestedObject<'a, N>>, ReadError> {
        let (scanner, slots) = (self.scanner(), MemberSlots::new(""));
        let (open, chain) = (Vec::new(), Vec::new());
        let mut reader = ChainReader { scanner, keys, inner, limit, slots, open, chain };
        if self.is_object() {
            reader.open_object()?;
            while reader.read_step()? {}
        }
        Ok(reader.chain)
    }
}

impl<const N: usize> ChainReader<'_, '_, N> {
    fn open_object(&mut self) -> Result<(), Stop> {
        if self.chain.len() == self.limit {
            return Err(ReadError::TreeTooDeep { offset: self.scanner.pos(), limit: self.limit }.into());
        }
        self.scanner.open_object();
        self.open.push(OpenObject { position: self.chain.len(), members: 0, own: None, list: None });
        self.chain.push(NestedObject { members: [None; N], place: MemberPlace::default(), own: None });
        Ok(())
    }

    /// Reads the next member of the innermost object, or its end. Returns false after the end of the outermost one.
    fn read_step(&mut self) -> Result<bool, Stop> {
        let s = &mut self.scanner;
        let Some(object) = self.open.last_mut() else { return Ok(false) };
        let Some(found) = self.chain.get_mut(object.position) else { return Ok(false) };
        let Some(member) = s.next_member(object.members)? else {
            self.close_object()?;
            return Ok(true);
        };
        object.members += 1;
        (object.own, found.own) = (None, None);
        if member.has_key(self.inner) && s.peek_byte() == Some(b'[') && object.list.is_none() {
            object.list = s.open_objects(self.slots.slot_for(0, "inner"))?;
            if let Some(list) = &mut object.list
                && s.next_object(list)?
            {
                self.open_object()?;
            }
            return Ok(true);
        }
        let value = s.current_value();
        s.skip_value()?;
        for (key, place) in self.keys.iter().zip(&mut found.members) {
            if member.has_key(key) {
                *place = Some(value);
            }
        }
        if member.has_key("symbolication") && value.is_object() {
            (object.own, found.own) = (Some(member.separator..s.pos()), Some(value));
        }
        Ok(true)
    }

    fn close_object(&mut self) -> Result<(), Stop> {
        let Some(object) = self.open.pop() else { return Ok(()) };
        let has_members = object.members > usize::from(object.own.is_some());
        let insert_at = self.scanner.close_object();
        if let Some(found) = self.chain.get_mut(object.position) {
            found.place = MemberPlace { insert_at, has_members, own_member: object.own };
        }
        // Further objects of a list belong to no chain.
        if let Some(list) = self.open.last_mut().and_then(|outer| outer.list.as_mut()) {
            while self.scanner.next_object(list)? {
                self.scanner.skip_value()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadLimits;

    #[test]
    fn a_chain_has_the_first_object_of_each_list() {
        let text = br#"{"a":1,"in":[7,{"in":[{"a":3,"in":[]},{"a":9}],"a":2,"symbolication":{}},{"in":[{}]}],"b":{}}"#;
        let (root, _) = Value::read(text, 0, &ReadLimits::default()).unwrap();
        let chain = root.read_chain(["a", "b"], "in", 8).unwrap();
        let numbers: Vec<Option<u64>> = chain.iter().map(|object| object.members[0]?.as_unsigned()).collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
        assert!(chain[0].members[1].is_some() && chain[0].own_value().is_none());
        let place = chain[1].member_place(true);
        assert_eq!(text.get(place.insert_at), Some(&b'}'));
        assert_eq!(&text[place.own_member.unwrap()], b",\"symbolication\":{}");
        assert_eq!(chain[1].member_place(false).own_member, None);
        assert_eq!(chain[0].place.insert_at, text.len() - 1);
        assert!(matches!(root.read_chain(["a"], "in", 2), Err(ReadError::TreeTooDeep { limit: 2, .. })));
        let (number, _) = Value::read(b"7", 0, &ReadLimits::default()).unwrap();
        assert!(number.read_chain(["a"], "in", 2).unwrap().is_empty());
    }
}
